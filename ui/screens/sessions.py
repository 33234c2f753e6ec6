"""The Sessions screen: who is connected, what each session may do without asking, and how to take it away.

Below the live ones stand those that ended, as the log tells of them; it also gives the counts of what each has done.
Foreign are directories, labels and the names of programs: they stand in quotes or in columns of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from broker.client import card_words as words
from broker.contract.neutralise import cells
from ui.answering import Key
from ui.dates import minute
from ui.frame import Hint, last_rule, title
from ui.kept import Kept
from ui.listing import Listing
from ui.messages import EndSession, Mute, RevokeGrant
from ui.paper import LINE, Paper, Role, Row, Span, cut_end, row, rule
from ui.screens.listed import ListScreen
from ui.screens.sheet import AskFirst, Choice, Effect, Moment, Say, Sheet, body_height, filled
from ui.served import GrantRow, Link, SessionLimits, SessionRow
from ui.served_log import PastSession
from ui.session_rows import About, HeldGrant, Item, UnderWay, items_of, more_of, takes_no_focus
from ui.wording import dressed, effect_role
from ui.world import World

DETAIL_ROWS = 4
TO_AGE, TO_WHERE = 29, 22  # columns before the age, and from there to where it runs
_COVERS = {
    "tree": "it and what it starts",
    "process": "it alone",
    "connection": "one connection",
    "container": "all that reaches the socket of its container",
}


def _listing() -> Listing[Item]:
    return Listing(same=lambda item: item.id, searched=more_of, still=takes_no_focus)


@dataclass(slots=True, kw_only=True)
class Sessions(ListScreen[Item]):
    listed: Listing[Item] = field(default_factory=_listing)
    _folded: frozenset[str] = frozenset()
    _items: "Kept[list[Item]]" = field(default_factory=Kept)
    _past: "Kept[dict[str, PastSession]]" = field(default_factory=Kept)

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet:
        items = self._of(world)
        room = max(body_height(paper) - DETAIL_ROWS - 1, 1)
        head = row(Span(f" {'Who':<{TO_AGE}}{'Age':<7}{'Calls':>6}{'Denied':>8}  Where", Role.FAINT))
        body = [head, *self.rows(items, lambda item: _line(item, paper, now), paper, room, empty="No session is open.")]
        past = self._past.of(lambda: {one.id: one for one in world.past}, world.past)
        body += _detail(self.listed.focused(items), past, world.limits, paper)
        alive = f"{len(world.sessions)} alive, {words.counted(len(world.grants), 'grant')}"
        return Sheet(
            title=title(paper, f"Sessions {self.listed.filter_words(paper)}".rstrip(), alive),
            body=filled(body, paper),
            last_rule=last_rule(paper),
            hints=_hints(paper),
        )

    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None:
        del now
        items = self._of(world)
        item = self.listed.focused(items)
        if key.name == "space" and not self.listed.filtering and isinstance(item, SessionRow):
            self._folded ^= {item.id}
            return ()
        if self.listed.key(key, items):
            return ()
        match key.name:
            case "R" if isinstance(item, SessionRow | HeldGrant):
                return (_revoke(item),)
            case "M" if isinstance(item, SessionRow):
                return (AskFirst(question="Mute this session?", task=Mute(session_id=item.id, muted=True)),)
            case "u" if isinstance(item, SessionRow) and item.muted:
                if not world.approver:
                    return (Say(words="unmuting is signed: unlock the approver key first (1, then u)"),)
                return (Mute(session_id=item.id, muted=False),)
            case _:
                return None

    def _of(self, world: World) -> Sequence[Item]:
        return self._items.of(
            lambda: items_of(world, self._folded), world.sessions, world.grants, world.past, self._folded
        )


def _revoke(item: SessionRow | HeldGrant) -> AskFirst:
    match item:
        case SessionRow():
            kill = Choice(key="K", word="and kill its processes", task=EndSession(session_id=item.id, kill=True))
            return AskFirst(question="End it and its grants?", task=EndSession(session_id=item.id), also=(kill,))
        case HeldGrant():
            return AskFirst(question="Revoke this grant?", task=RevokeGrant(grant_id=item.id))


def _line(item: Item, paper: Paper, now: Moment) -> Row:
    match item:
        case SessionRow():
            return _session_line(item, paper, now)
        case About():
            return _about_line(item, paper)
        case HeldGrant():
            return _grant_line(item, paper, now)
        case UnderWay():
            return _under_way_line(item, paper, now)
        case PastSession():
            return _past_line(item, paper)


def _session_line(item: SessionRow, paper: Paper, now: Moment) -> Row:
    name_width = 14 if item.identified else 16  # the pid's column gives way to the sign
    agent = _column(paper.foreign(item.agent), 14, paper)
    name = Span(agent) if item.identified else Span(f"! {agent}", Role.LOOK)
    figures = f"{f'pid {item.pid}':<{TO_AGE - name_width}}{_age(now.wall_ms - item.opened_at_ms):<7}"
    figures += f"{item.calls:>6}{item.denied:>8}  "
    muted = Span("  MUTED", Role.LOOK) if item.muted else Span("")
    room = max(paper.width - TO_AGE - TO_WHERE - 2 - cells(muted.text) - 2, 8)
    return row(name, figures, *_where(item, paper, room), muted)


def _where(item: SessionRow, paper: Paper, room: int) -> Row:
    if item.container is not None:
        return row(Span(cut_end(f"container {paper.foreign(item.container, limit=60)}", room, paper.dots), Role.LOOK))
    if not item.cwd:
        return row("not known")
    return row(Span(f'"{cut_end(paper.quote(item.cwd)[1:-1], room - 2, paper.dots)}"', Role.FOREIGN))


def _about_line(item: About, paper: Paper) -> Row:
    session = item.session
    bar = paper.own("└─" if item.last else "│")
    if session.muted:
        grants = "no grants   " if not item.grants else ""
        why = paper.foreign(session.muted_why or "", limit=60) or "muted by you"
        since = f", muted {minute(session.muted_at_ms)}" if session.muted_at_ms is not None else ""
        return row(f"{bar} {grants}", Span(f"{why}{since}", Role.LOOK), "   ", Span("u", Role.KEY), " hears it again")
    if session.identified:
        by = "named by `doorward listen`" if session.named_by == "listener" else "named by [agents]"
        digest = ", file digest as declared" if session.digest_ok else ""
        program = paper.foreign(PurePosixPath(session.exe or "").name or "program not known", limit=40)
        vague = Span("  ! an interpreter", Role.LOOK) if session.interpreter else Span("")
        return row(f"{bar} {by}: ", Span(program, Role.FOREIGN), digest, vague)
    name_it = "    name it: doorward policy add"
    chain = cut_end(_chain(session, paper, pids=False), paper.width - len(name_it) - 4, paper.dots)
    return row("  ", Span(chain, Role.FOREIGN), name_it)


def _chain(session: SessionRow, paper: Paper, *, pids: bool) -> str:
    """The process and those above it; outside of this namespace nothing can be said."""
    names = [_link(link, paper, pids=pids) for link in session.chain]
    if not names:
        names = [paper.foreign(PurePosixPath(session.exe or "").name or "not known", limit=40)]
    return " < ".join([*names, *(["(outside of this namespace)"] if session.container is not None else [])])


def _link(link: Link, paper: Paper, *, pids: bool) -> str:
    name = paper.foreign(link.name, limit=30)
    return f"{name} {link.pid}{' (never a session)' if link.never else ''}" if pids else name


def _grant_line(item: HeldGrant, paper: Paper, now: Moment) -> Row:
    grant = item.grant
    left = words.duration(grant.expires_at_ms - now.wall_ms)
    effect = paper.foreign(grant.effect, limit=24).upper()
    corner = paper.own("└─" if item.last else "├─")
    made = _age(now.wall_ms - grant.made_at_ms)
    used = f"{grant.used}/{grant.max_uses}"
    what = _covered(grant, paper)
    return row(
        f"{corner} grant {_column(paper.foreign(grant.rule), 20, paper)}{made:<6}{used:>8}         {left} left, ",
        Span(effect, effect_role(effect)),
        f" {what}" if what else "",
    )


def _covered(grant: GrantRow, paper: Paper) -> str:
    """The service or operation that the rule's grant is held to; nothing where it is the whole rule."""
    _, _, what = grant.scope.partition("/")
    return cut_end(paper.foreign(what.replace(".", " ", 1), limit=80), 16, paper.dots)


def _under_way_line(item: UnderWay, paper: Paper, now: Moment) -> Row:
    corner = paper.own("└─" if item.last else "├─")
    if item.flight is not None:
        effect = paper.foreign(item.flight.effect, limit=24).upper()
        what = paper.foreign(item.flight.operation.replace(".", " ", 1), limit=60)
        since_s = max(now.wall_ms - item.flight.since_ms, 0) / 1000
        lasts = f"{since_s:.1f} s" if since_s < 10 else words.duration(round(since_s * 1000))
        return row(f"{corner} in flight  ", Span(effect, effect_role(effect)), f" {what}  {lasts}")
    if item.count < 0:
        return row(f"{corner} in flight  {words.counted(-item.count, 'request')}")
    return row(f"{corner} waiting    {words.counted(item.count, 'card')}")


def _past_line(item: PastSession, paper: Paper) -> Row:
    agent = _column(paper.foreign(item.agent or "not known"), 14, paper)
    pid = "" if item.pid is None else f"pid {item.pid}"
    lived = " ?" if item.opened_at_ms is None else _age((item.ended_at_ms or 0) - item.opened_at_ms)
    why = paper.foreign(item.why or "", limit=24)
    end = f"ended {minute(item.ended_at_ms or 0)} {why}".rstrip()
    return row(Span(f"{agent}{pid:<15}{lived:<7}{item.requests:>6}{item.denied:>8}  {end}", Role.FAINT))


def _age(ms: int) -> str:
    """A duration with its number in two columns, so that ages stand below each other."""
    number, _, unit = words.duration(ms).partition(" ")
    return f"{number:>2} {unit}"


def _column(text: str, width: int, paper: Paper) -> str:
    shown = cut_end(text, width - 1, paper.dots)
    return shown + " " * (width - cells(shown))


def _detail(item: Item | None, past: Mapping[str, PastSession], limits: SessionLimits, paper: Paper) -> list[Row]:
    match item:
        case SessionRow():
            return _session_detail(item, past.get(item.id), limits, paper)
        case HeldGrant(grant=grant):
            scope = paper.foreign(grant.scope, limit=paper.width - 12)
            return [
                row(rule(paper.width, LINE, left=f"grant {paper.foreign(grant.rule, limit=40)}")),
                row(f" covers  {scope}: {words.counted(grant.max_uses, 'call')}, {grant.max_uses - grant.used} left"),
                row(f" made    {words.clock_time(grant.made_at_ms)}, ends {words.clock_time(grant.expires_at_ms)}"),
                row(" ends    with its session, a lock, a freeze, or a change of its premises"),
            ]
        case PastSession():
            why = paper.foreign(item.why or "", limit=40)
            began = "before the log that is held" if item.opened_at_ms is None else words.clock_time(item.opened_at_ms)
            return [
                row(rule(paper.width, LINE, left=f"{paper.foreign(item.agent, limit=30)}, ended")),
                row(f" began   {began}, ended {words.clock_time(item.ended_at_ms or 0)}: {why}"),
                row(f" log     {_done(item, paper)}"),
                row(f" id      {paper.foreign(item.id, limit=40)}"),
            ]
        case _:
            return [row(LINE * paper.width)]


def _session_detail(item: SessionRow, past: PastSession | None, limits: SessionLimits, paper: Paper) -> list[Row]:
    name = f"{paper.foreign(item.agent, limit=30)} pid {item.pid}"
    label = f"   label says: {paper.quote(item.label, limit=30)}" if item.label else ""
    cards = f"{limits.cards_per_min} cards a minute, {limits.cards_per_session} a session"
    told = "not told" if limits.cards_per_min is None else cards
    tree = cut_end(_chain(item, paper, pids=True), paper.width - 9 - cells(label), paper.dots)
    return [
        row(rule(paper.width, LINE, left=name)),
        dressed(f" tree    {tree}{label}"),
        _naming(item, paper) or row(f" limits  {told}   a yes reaches {_COVERS.get(item.span, 'one connection')}"),
        row(f" done    {_done(past, paper) if past is not None else _ends(item)}"),
    ]


def _naming(item: SessionRow, paper: Paper) -> Row:
    """What would name a program that no policy names."""
    if item.identified or item.naming is None:
        return ()
    exe, argv = item.naming
    program = f"exe {paper.quote(exe)}" + (f", argv {paper.quote(argv)}" if argv else "")
    return dressed(cut_end(f" name    [agents.NAME] {program}", paper.width, paper.dots))


_EFFECTS = {"READ": "read", "WRITE": "write", "DELETE": "deletion", "RUN": "run"}
_ENDS = {"read": "read", "write": "write", "exec": "run"}


def _ends(item: SessionRow) -> str:
    counts = [words.counted(count, _ENDS.get(name, name)) for name, count in item.done if count]
    return f"{', '.join(counts) or 'nothing yet'}   {words.counted(item.denied, 'refusal')}"


def _done(item: PastSession, paper: Paper) -> str:
    """What the log tells that a session did."""
    counts = [words.counted(count, _EFFECTS.get(name, paper.foreign(name, limit=12))) for name, count in item.effects]
    last = "none"
    if item.last_denial is not None:
        at_ms, code = item.last_denial
        last = f"{minute(at_ms)} {paper.foreign(code, limit=30)}"
    return f"{', '.join(counts) or 'no requests'}   {words.counted(item.denied, 'refusal')}   last refusal {last}"


def _hints(paper: Paper) -> tuple[Hint, ...]:
    dots = paper.dots
    return (
        Hint(key="j/k", word="row"),
        Hint(key="Space", word="fold"),
        Hint(key="R", word=f"revoke{dots}"),
        Hint(key="M", word=f"mute{dots}"),
        Hint(key="u", word="unmute"),
        Hint(key="F", word=f"freeze{dots}"),
        Hint(key="q", word="quit"),
        Hint(key="/", word="filter"),
    )
