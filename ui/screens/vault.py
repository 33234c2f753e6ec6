"""The Vault screen: which credentials there are, where they may go, and the host keys that a human accepted.

Host keys stand here for they are kept in the vault, and like credentials they say which strangers are trusted. No key
shows, copies or edits a value: what changes one is named as a command. Foreign is what a provider said on a check.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from broker.client import card_words as words
from broker.client.lock_words import lock_words
from ui.answering import Key
from ui.credential_words import Use, rules_of, services_of, taken, uses_of
from ui.dates import day, day_and_minute, minute, near
from ui.frame import Hint, last_rule, title
from ui.kept import Kept
from ui.list_messages import CheckCredential, ForgetHostKey
from ui.listing import Listing
from ui.paper import LINE, Paper, Role, Row, Span, cut_end, fit, row, rule, wrap
from ui.screens.listed import ListScreen
from ui.screens.sheet import AskFirst, Effect, Moment, Say, Sheet, body_height, filled
from ui.served import CredentialRow, Status
from ui.served_lists import HostKeyRow
from ui.wording import effect_role
from ui.world import World

DETAIL_ROWS = 7
NAME, KIND, BOUND, CHECK = 14, 11, 29, 11
NARROW = 80
MS_PER_MIN = 60_000

Item: TypeAlias = CredentialRow | HostKeyRow


def _listing() -> Listing[Item]:
    return Listing(same=_id, searched=_searched)


def _id(item: Item) -> str:
    return item.id if isinstance(item, HostKeyRow) else item.name


def _searched(item: Item) -> str:
    if isinstance(item, HostKeyRow):
        return f"{item.host} host key {item.address} {item.algorithm} {item.fingerprint}"
    return f"{item.name} {item.kind} {' '.join(item.origins)}"


@dataclass(slots=True, kw_only=True)
class VaultScreen(ListScreen[Item]):
    listed: Listing[Item] = field(default_factory=_listing)
    _items: "Kept[Sequence[Item]]" = field(default_factory=Kept)
    _uses: "Kept[dict[str, Use]]" = field(default_factory=Kept)

    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None:
        del now
        items = self._of(world)
        if self.listed.key(key, items):
            return ()
        item = self.listed.focused(items)
        match key.name, item:
            case "c", CredentialRow():
                return (CheckCredential(name=item.name), Say(words="one read is sent; what it came to is told here"))
            case "R", HostKeyRow() if not world.approver:
                return (Say(words="forgetting is signed: unlock the approver key first (1, then u)"),)
            case "R", HostKeyRow():
                task = ForgetHostKey(address=item.address, port=item.port)
                return (AskFirst(question="Forget this host key?", task=task),)
            case _:
                return None

    def _of(self, world: World) -> Sequence[Item]:
        if world.credentials is None:
            return ()
        return self._items.of(lambda: _all_of(world), world.credentials, world.host_keys)

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet:
        items, status = self._of(world), world.status
        uses = self._uses.of(lambda: uses_of(world.activity or ()), world.activity)
        if status.vault_state == "quarantined":
            body = _quarantine(status, paper)
        elif status.vault_state != "ready":
            body = _locked(status, paper)
        else:
            body = self._list(items, world, uses, paper, now)
        name = f"Vault {self.listed.filter_words(paper)}".rstrip()
        return Sheet(
            title=title(paper, name, _state(world, paper)),
            body=filled(body, paper),
            last_rule=last_rule(paper),
            hints=_hints(self.listed.focused(items), paper),
        )

    def _list(self, items: Sequence[Item], world: World, uses: dict[str, Use], paper: Paper, now: Moment) -> list[Row]:
        bound = BOUND + max(paper.width - NARROW, 0)
        head = row(
            Span(f" {'Name':<{NAME}}{'Kind':<{KIND}}{'Bound to':<{bound}}{'Check':<{CHECK}}Last use", Role.FAINT)
        )
        room = max(body_height(paper) - DETAIL_ROWS - 1, 1)

        def line(item: Item) -> Row:
            if isinstance(item, HostKeyRow):
                return _host_line(item, bound, paper, now)
            return _line(item, world, uses, bound, paper, now)

        shown = None if world.credentials is None else items
        empty = "No credential yet: doorward credential add"
        item = self.listed.focused(items)
        return [head, *self.rows(shown, line, paper, room, empty=empty), *_detail(item, world, uses, paper, now)]


def _all_of(world: World) -> Sequence[Item]:
    return [*(world.credentials or ()), *world.host_keys]


def _state(world: World, paper: Paper) -> str:
    status = world.status
    state = paper.foreign(status.vault_state, limit=24) or "state not known"
    since = status.vault_ready_since_ms
    if since is None and status.vault_state == "ready":
        since = next((one.at_ms for one in world.activity or () if one.event == "vault.unlocked"), None)
    parts = [f"{state} since {minute(since)}" if since is not None else state, f"term {status.vault_term}"]
    if status.vault_idle_lock_in_ms is not None:
        left_min = status.vault_idle_lock_in_ms // MS_PER_MIN
        parts.append(f"locks when idle {left_min // 60}:{left_min % 60:02} h")
    return ", ".join(parts)


def _locked(status: Status, paper: Paper) -> list[Row]:
    why = lock_words(status.vault_locked_for)
    methods = ", ".join(paper.foreign(one, limit=24) for one in status.vault_methods) or "passphrase"
    state = paper.foreign(status.vault_state, limit=24) or "not known"
    return [
        row(" ", Span(f"The vault is {state}", Role.LOOK), f": {why}." if why else "."),
        (),
        row(" Nothing runs. Credentials and host keys are sealed, and their names with them."),
        (),
        row(" ", Span("u", Role.KEY), "  opens it with the passphrase, typed into this window"),
        row(f"    set up to open it: {methods}; elsewhere: doorward unlock"),
    ]


def _quarantine(status: Status, paper: Paper) -> list[Row]:
    """Why nothing runs. Taking it over is for a terminal of its own: it asks for the passphrase and a typed word."""
    said = [one for one in status.warnings if status.vault_reason is not None and status.vault_reason in one]
    why = said or [f"the vault is quarantined ({status.vault_reason or 'it is not told why'})"]
    lines = [folded for one in why for folded in wrap(paper.foreign(one), paper.width - 4)]
    return [
        *(row(Span(f" {' ' if at else '!'} {line}", Role.LOOK)) for at, line in enumerate(lines)),
        (),
        row(" Nothing runs. To see what was found, what is lost and what stays proven, and to take it over:"),
        row(" doorward vault readopt"),
        row(" Restoring what is missing from a backup is better wherever there is one."),
    ]


def _line(item: CredentialRow, world: World, uses: dict[str, Use], bound: int, paper: Paper, now: Moment) -> Row:
    more = f" +{len(item.origins) - 1}" if len(item.origins) > 1 else ""
    place = paper.foreign(item.origins[0].removeprefix("ssh://")) if item.origins else "nothing"
    where = cut_end(place, bound - 2 - len(more), paper.dots) + more
    name, kind = cut_end(paper.foreign(item.name), NAME - 1, paper.dots), paper.foreign(item.kind).replace("_", " ")
    check = fit((taken(item.name, uses, world.checks).span,), CHECK)
    used = uses.get(item.name)
    columns = f"{name:<{NAME}}{cut_end(kind, KIND - 1, paper.dots):<{KIND}}{where:<{bound}}"
    if used is None:
        return row(columns, *check, "not seen")
    effect = paper.foreign(used.last.effect or "", limit=8)
    return row(columns, *check, f"{near(used.last.at_ms, now.wall_ms)} ", Span(effect, effect_role(effect)))


def _host_line(item: HostKeyRow, bound: int, paper: Paper, now: Moment) -> Row:
    name = cut_end(paper.foreign(item.host), NAME - 1, paper.dots)
    place = cut_end(f"{paper.foreign(item.address)}:{item.port}", bound - 2, paper.dots)
    kind = cut_end(paper.foreign(item.algorithm.removeprefix("ssh-")), CHECK - 1, paper.dots)
    accepted = near(item.accepted_at_ms, now.wall_ms)
    return row(f"{name:<{NAME}}{'host key':<{KIND}}{place:<{bound}}{kind:<{CHECK}}{accepted} accepted")


def _detail(item: Item | None, world: World, uses: dict[str, Use], paper: Paper, now: Moment) -> list[Row]:
    match item:
        case None:
            return [row(LINE * paper.width)]
        case HostKeyRow():
            return [
                row(rule(paper.width, LINE, left=f"host key of {paper.foreign(item.host, limit=40)}")),
                row(f" key     {paper.foreign(item.algorithm, limit=40)}"),
                row(f" {paper.foreign(item.fingerprint, limit=paper.width - 2)}"),
                row(f" taken   {day_and_minute(item.accepted_at_ms)} by you, at the first contact with the host"),
                row(" trusts  whoever answers there with this key; another key is refused"),
                (),
                row(" ", Span("R", Role.KEY), f"  Forget{paper.dots}  signed; the next contact asks again"),
            ]
        case CredentialRow():
            return _credential_detail(item, world, uses, paper, now)


def _credential_detail(item: CredentialRow, world: World, uses: dict[str, Use], paper: Paper, now: Moment) -> list[Row]:
    services = services_of(item.name, world.policy)
    rules = rules_of(services, world.policy)
    grants = sum(grant.rule in rules for grant in world.grants)
    last = f"changed {day(item.rotated_at_ms, now_ms=now.wall_ms)}" if item.rotated_at_ms else "not changed since"
    since = f"put in {day(item.created_at_ms, now_ms=now.wall_ms)} by you; {last}"
    used_by = ", ".join(paper.foreign(one, limit=24) for one in services) or "no service"
    named = ", ".join(paper.foreign(one, limit=40) for one in rules) or "none that names it"
    origins = "  ".join(paper.foreign(origin) for origin in item.origins)
    lock = f"ends {words.counted(len(world.sessions), 'session')}, voids {words.counted(len(world.pending), 'card')}"
    lines = [
        f" version {item.version}, {since}    used by {used_by}",
        f" rules   {named}   open grants {grants}",
        f" bound   {origins}" if len(item.origins) > 1 else f" check   {_check(item, world, uses, paper)}",
        " value   never shown, here or anywhere. To change it: doorward credential rotate",
    ]
    if len(item.origins) > 1:
        lines.insert(3, f" check   {_check(item, world, uses, paper)}")
    rows = [row(cut_end(line, paper.width, paper.dots)) for line in lines]
    keys = row(
        " ", Span("c", Role.KEY), "  Check now (one read)     ", Span("L", Role.KEY), f"  Lock{paper.dots}  {lock}"
    )
    return [
        row(rule(paper.width, LINE, left=paper.foreign(item.name, limit=40))),
        *rows,
        *[_ways(world.status, paper)] * (DETAIL_ROWS - 2 - len(rows)),
        keys,
    ]


def _ways(status: Status, paper: Paper) -> Row:
    """How the vault is opened, where that is told."""
    ways = " or ".join(paper.foreign(one, limit=40) for one in status.vault_methods)
    return row(f" opens   with {ways}; to change that: doorward vault methods") if ways else ()


def _check(item: CredentialRow, world: World, uses: dict[str, Use], paper: Paper) -> str:
    found = taken(item.name, uses, world.checks)
    if found.at_ms is None:
        return "not made, and no use is on record that tells"
    said = {"valid": "accepted", "invalid": "refused"}.get(found.verdict, "not known")
    return f"{day_and_minute(found.at_ms)}: {said}; {paper.foreign(found.by, limit=200)}"


def _hints(item: Item | None, paper: Paper) -> tuple[Hint, ...]:
    keys: tuple[Hint, ...] = (Hint(key="c", word="check"),)
    if isinstance(item, HostKeyRow):
        keys = (Hint(key="R", word=f"forget{paper.dots}"),)
    return (
        Hint(key="j/k", word="row"),
        *keys,
        Hint(key="L", word=f"lock{paper.dots}"),
        Hint(key="/", word="filter"),
        Hint(key="1-7", word="screens"),
        Hint(key="q", word="quit"),
    )
