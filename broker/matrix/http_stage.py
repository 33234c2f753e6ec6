"""The HTTP channel: a case's services led to the far sides, its answers and its fault as a plan for them.

Every run has a path of its own below the far side's origin, a credential of its own, and therefore connections and
doubts of its own. What a service calls its address in answers is put where it really is.
"""

import re
import time
from collections.abc import Mapping
from email.utils import formatdate
from typing import Self
from urllib.parse import urlsplit

from broker.contract.wire import JsonObject, JsonValue
from broker.matrix.cases import AD_HOC, Answer, Case
from broker.matrix.house import House
from broker.matrix.http_faults import HttpFaults
from broker.matrix.http_plans import HttpAnswer, HttpFault, HttpPlan
from broker.matrix.orders import orders
from broker.matrix.records import Seen
from broker.matrix.stage import Furnished, Run

METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]
CA_FILE = "matrix.pem"
_EPOCH = re.compile(r"\{epoch ([+-]\d{1,9})\}")  # seconds from now, as a number and as a date of HTTP
_DATE = re.compile(r"\{date ([+-]\d{1,9})\}")
_PAD = re.compile(r"\{pad (\d{1,7})\}")


class HttpStage:
    """See stage.Stage."""

    def __init__(self, far: HttpFaults | None = None) -> None:
        self.far = far or HttpFaults()

    def __enter__(self) -> Self:
        self.far.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.far.close()

    def furnish(self, run: Run) -> Furnished:
        case, fault = run.case, _fault(run.case)
        services = _used(case)
        needs_tls = any(isinstance(one.get("tls"), Mapping) for one in services.values())
        origin = self.far.origin(fault, tls=needs_tls)
        placing = Placing(run=run, origin=origin, services=services)
        answers = tuple(_answer(one, placing) for one in case.answers)
        honours = all(one.honours_key for one in case.answers)
        self.far.arm(
            run.name,
            HttpPlan(
                answers=answers, fault=fault, honours_keys=honours, changes=not case.is_read or bool(case.agent.uses)
            ),
        )
        is_tls = origin.startswith("https:")
        return Furnished(
            orders=orders(case, placing.value, service=AD_HOC),
            services={name: placing.service(one, is_tls=is_tls) for name, one in services.items()},
            origins=(origin,),
            files={CA_FILE: self.far.ca_pem} if is_tls else {},
        )

    def meanwhile(self, run: Run, house: House) -> None:
        """Nothing: what breaks here breaks by itself."""

    def afterwards(self, run: Run, house: House) -> None:
        """Nothing: no run of another has a part in what broke."""

    def events(self, run: Run) -> tuple[Seen, ...]:
        return self.far.events(run.name)


class Placing:
    """Where things really are: addresses of services, the run's token, and padding that nobody wants to write out."""

    def __init__(self, *, run: Run, origin: str, services: Mapping[str, JsonObject]) -> None:
        self._run = run
        self._base = f"{origin}/{run.name}"
        told = (urlsplit(str(one.get("base_url", ""))) for one in services.values())
        self._known = {f"{one.scheme}://{one.netloc}" for one in told if one.netloc}

    def service(self, table: JsonObject, *, is_tls: bool) -> JsonObject:
        path = urlsplit(str(table.get("base_url", ""))).path.rstrip("/")
        placed: dict[str, JsonValue] = {**table, "base_url": self._base + path}
        if table.get("credential") != "":
            placed["credential"] = self._run.credential
        else:
            del placed["credential"]
        placed.pop("tls", None)
        if is_tls:
            placed["tls"] = {"ca": CA_FILE}
        return placed

    def text(self, text: str) -> str:
        for origin in self._known:
            text = text.replace(origin, self._base)
        text = _PAD.sub(lambda found: "n" * int(found[1]), text)
        text = _EPOCH.sub(lambda found: str(round(time.time()) + int(found[1])), text)
        text = _DATE.sub(lambda found: formatdate(time.time() + int(found[1]), usegmt=True), text)
        for name, told in (("{token}", self._run.token), ("{base}", self._base), ("{run}", self._run.name)):
            text = text.replace(name, told)
        return text

    def value(self, value: JsonValue) -> JsonValue:
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {key: self.value(told) for key, told in value.items()}
            case list():
                return [self.value(one) for one in value]
            case _:
                return value


def _used(case: Case) -> Mapping[str, JsonObject]:
    """The services that a case names; one that lets everything through where it names none."""
    told = {case.service, *(str(one.fields.get("service") or "") for one in case.agent.uses.values())}
    named = {name: table for name, table in case.services.items() if name in told}
    if case.service is None or AD_HOC in told:
        named.setdefault(AD_HOC, {"kind": "http", "base_url": "http://matrix.invalid", "ad_hoc": METHODS})
    return named


def _fault(case: Case) -> HttpFault | None:
    fault = case.fault
    if fault is None or fault.channel != "http":
        return None
    return HttpFault(point=fault.point, kind=fault.kind, seconds=fault.seconds, on=fault.on)


def _answer(answer: Answer, placing: Placing) -> HttpAnswer:
    return HttpAnswer(
        status=answer.status,
        headers=tuple((name, placing.text(told)) for name, told in answer.headers),
        body=placing.text(answer.body.decode("latin-1")).encode("latin-1"),
        commits=answer.commits,
        when=answer.when,
    )
