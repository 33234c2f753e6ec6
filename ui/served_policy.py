"""What the daemon says of the policy in force and of the edited files, parsed once for the screen.

Holds text of files that others may have written, as it came; drawing neutralises it.
"""

from dataclasses import dataclass

from broker.contract.wire import JsonValue
from ui.served import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """One difference between the policy in force and the edited one."""

    direction: str
    subject: str
    was: str
    becomes: str
    place: str | None = None
    rule: str | None = None
    lines: tuple[tuple[str, str], ...] = ()  # sign and text, of the block behind it before and after


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    id: str
    approval: str
    about: str
    reason: str
    place: str | None
    active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedFile:
    name: str
    status: str
    modified_at_ms: int | None
    uid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    file: str
    line: int
    key: str
    problem: str
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFacts:
    """The policy in force and, where files were edited, what they would make of it."""

    digest: str | None
    counter: int
    files: tuple[str, ...]
    rules: int
    services: tuple[tuple[str, str, str, bool], ...]  # name, base url, credential, bound
    pending_digest: str | None = None
    pending_counter: int = 0
    pending_files: tuple[str, ...] = ()
    changes: tuple[ChangeRow, ...] = ()
    faults: tuple[FaultRow, ...] = ()
    warnings: tuple[FaultRow, ...] = ()
    same: bool = True
    state: str = ""
    signed_digest: str | None = None
    system: tuple[str, ...] = ()
    rule_list: tuple[RuleRow, ...] = ()
    in_force_warnings: tuple[FaultRow, ...] = ()
    edited: tuple[EditedFile, ...] = ()
    unchanged: int | None = None
    voids: tuple[int, int] | None = None  # cards and grants that trusting would end

    @property
    def waits(self) -> bool:
        """Whether a change could be trusted: there is something, it is different, and free of faults."""
        something = bool(self.pending_files) or self.digest is not None
        return something and self.pending_digest is not None and not self.same and not self.faults


def policy(in_force: JsonValue, pending: JsonValue) -> PolicyFacts:
    now, then = Fields(in_force), Fields(pending)
    return PolicyFacts(
        digest=now.text_or_none("digest"),
        counter=now.number("counter"),
        files=tuple(part.text("name") for part in now.parts("files")),
        rules=now.number("rules"),
        services=tuple(
            (part.text("name"), part.text("base_url"), part.text("credential"), part.flag("bound"))
            for part in now.parts("services")
        ),
        pending_digest=then.text_or_none("digest"),
        pending_counter=then.number("counter"),
        pending_files=tuple(part.text("name") for part in then.parts("files")),
        changes=tuple(_change(part) for part in then.parts("changes")),
        faults=tuple(_fault(part) for part in then.parts("faults")),
        warnings=tuple(_fault(part) for part in then.parts("warnings")),
        same=then.flag("same"),
        state=then.text("state") or now.text("state"),
        signed_digest=now.text_or_none("signed_digest"),
        system=tuple(part.text("name") for part in now.parts("system")),
        rule_list=tuple(_rule(part) for part in now.parts("rule_list")),
        in_force_warnings=tuple(_fault(part) for part in now.parts("warnings")),
        edited=tuple(_edited(part) for part in then.parts("edited")),
        unchanged=then.number_or_none("unchanged"),
        voids=_voids(then.part("voids")),
    )


def _change(part: Fields) -> ChangeRow:
    return ChangeRow(
        direction=part.text("direction"),
        subject=part.text("subject"),
        was=part.text("was"),
        becomes=part.text("becomes"),
        place=part.text_or_none("place"),
        rule=part.text_or_none("rule"),
        lines=tuple((line.text("sign"), line.text("text")) for line in part.parts("lines")),
    )


def _rule(part: Fields) -> RuleRow:
    return RuleRow(
        id=part.text("id"),
        approval=part.text("approval"),
        about=part.text("about"),
        reason=part.text("reason"),
        place=part.text_or_none("place"),
        active=part.value("active") is not False,
    )


def _edited(part: Fields) -> EditedFile:
    return EditedFile(
        name=part.text("name"),
        status=part.text("status"),
        modified_at_ms=part.number_or_none("modified_at_ms"),
        uid=part.number_or_none("uid"),
    )


def _voids(part: Fields) -> tuple[int, int] | None:
    return (part.number("cards"), part.number("grants")) if part.whole else None


def _fault(part: Fields) -> FaultRow:
    return FaultRow(
        file=part.text("file"),
        line=part.number("line"),
        key=part.text("key"),
        problem=part.text("problem"),
        expected=part.text("expected"),
    )
