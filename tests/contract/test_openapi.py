from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from broker.contract.openapi import FACES, document
from broker.contract.schemas import names, read, schema

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


def test_the_agents_socket_has_no_route_that_decides_or_widens() -> None:
    words = ("approval", "decision", "unlock", "thaw", "trust", "credential", "grant", "settle", "policy", "audit")

    assert [] == [path for path, _, _, _ in operations("agent") if any(word in path for word in words)]


def test_a_face_that_there_is_not_has_no_document() -> None:
    with pytest.raises(LookupError, match="agent, control"):
        document("../schemas/result")
