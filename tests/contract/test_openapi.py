import inspect
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from broker.contract.openapi import FACES, document
from broker.contract.schemas import names, read, schema
from broker.server.admission import Need
from broker.server.agent_routes import AgentApi
from broker.server.control_routes import ControlApi
from broker.server.faults import CONTROL_STATUS

METHODS = {"get", "put", "post", "delete"}


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def operations(face: str) -> Iterator[tuple[str, str, dict[str, Any], list[Any]]]:
    paths: Any = document(face)["paths"]
    for path, item in paths.items():
        for method in METHODS & set(item):
            yield path, method, item[method], [*item.get("parameters", ()), *item[method].get("parameters", ())]


def resolved(face: str, part: dict[str, Any]) -> dict[str, Any]:
    found: Any = document(face)
    if "$ref" not in part:
        return part
    for step in part["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return dict(found)


@pytest.mark.parametrize("face", FACES)
class TestEachDocument:
    def test_it_is_openapi_3_1(self, face: str) -> None:
        told = document(face)

        assert told["openapi"] == "3.1.0"
        assert {"openapi", "info", "servers", "tags", "paths", "components"} == set(told)

    def test_its_references_lead_somewhere(self, face: str) -> None:
        for target in references(document(face)):
            if target.startswith("#/"):
                assert resolved(face, {"$ref": target}), target
            else:
                name, _, pointer = target.removeprefix("./schemas/").partition("#")
                assert name.removesuffix(".json") in names(), target
                part: Any = read(name.removesuffix(".json"))
                for step in pointer.split("/")[1:]:
                    part = part[step]

    def test_its_operations_have_names_of_their_own(self, face: str) -> None:
        found = [operation["operationId"] for _, _, operation, _ in operations(face)]

        assert sorted(set(found)) == sorted(found)

    def test_its_operations_say_what_they_do(self, face: str) -> None:
        tags: Any = document(face)["tags"]
        for path, _, operation, _ in operations(face):
            assert operation["summary"].endswith("."), path
            assert set(operation["tags"]) <= {tag["name"] for tag in tags}, path
            for response in operation["responses"].values():
                assert resolved(face, response)["description"].endswith("."), path

    def test_its_paths_name_their_parameters(self, face: str) -> None:
        for path, _, _, parameters in operations(face):
            told = {resolved(face, parameter)["name"] for parameter in parameters}

            assert {word.partition("}")[0] for word in path.split("{")[1:]} <= told, path

    def test_what_changes_something_takes_a_body_of_a_known_shape(self, face: str) -> None:
        for path, method, operation, _ in operations(face):
            if method in {"post", "put"}:
                body = resolved(face, operation["requestBody"])
                target = body["content"]["application/json"]["schema"]["$ref"]
                jsonschema_rs.validator_for(
                    schema(target.removeprefix("./schemas/").removesuffix(".json")), offline=True
                )
                assert path.startswith("/v1/")


def unwired(kind: type[Any]) -> Any:
    """The routes of an API need none of the parts behind it."""
    parts = {name: None for name in inspect.signature(kind.__init__).parameters if name != "self"}
    return kind(**parts)


def spelled(path: str) -> str:
    """A path without the names of its parameters."""
    return re.sub(r"\{\w+\}", "{}", path)


@pytest.mark.parametrize(("face", "kind"), [("agent", AgentApi), ("control", ControlApi)])
def test_the_document_has_the_routes_of_the_daemon_and_no_other(face: str, kind: type[Any]) -> None:
    served = {(route.method.lower(), spelled(route.path)) for route in unwired(kind).routes()}

    assert served == {(method, spelled(path)) for path, method, _, _ in operations(face)}


def test_a_route_of_the_control_socket_reads_the_body_that_its_document_names() -> None:
    named = {}
    for path, method, operation, _ in operations("control"):
        if "requestBody" in operation:
            content = resolved("control", operation["requestBody"])["content"]["application/json"]["schema"]["$ref"]
            named[method.upper(), spelled(path)] = content.removeprefix("./schemas/").removesuffix(".json")

    for route in unwired(ControlApi).table():
        assert named.get((route.method, spelled(route.path)), "nothing") == route.schema, route.path


def test_what_widens_is_said_to_be_signed_and_what_is_sealed_to_need_a_session() -> None:
    told = {
        (method.upper(), spelled(path)): operation["summary"] for path, method, operation, _ in operations("control")
    }

    for route in unwired(ControlApi).table():
        summary = told[route.method, spelled(route.path)]
        assert (route.need is Need.SIGNATURE) == ("Signed" in summary and "policy" not in route.path), route.path
        assert (route.need is Need.SESSION) == ("Control session." in summary or "Control session;" in summary)


def test_the_errors_of_the_control_socket_are_those_of_its_schema() -> None:
    part: Any = read("control-error")

    assert set(CONTROL_STATUS) == set(part["properties"]["error"]["properties"]["code"]["enum"])


def test_the_agents_socket_has_no_route_that_decides_or_widens() -> None:
    words = ("approval", "decision", "unlock", "thaw", "trust", "credential", "grant", "settle", "policy", "audit")

    assert ["/v1/credential-requests"] == [  # it has a human asked for one, and is given none
        path for path, _, _, _ in operations("agent") if any(word in path for word in words)
    ]


def test_a_face_that_there_is_not_has_no_document() -> None:
    with pytest.raises(LookupError, match="agent, control"):
        document("../schemas/result")
