"""The Sessions screen: who is connected, what each session may do without asking, and how to take it away.

Below the live ones stand those that ended, as the log tells of them; it also gives the counts of what each has done.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from broker.client import card_words as words
from ui.answering import Key
from ui.frame import Hint, last_rule, title
from ui.listing import Listing
from ui.messages import EndSession, Mute, RevokeGrant
from ui.paper import LINE, Paper, Role, Row, Span, cut_end, row, rule
from ui.screens.listed import ListScreen
from ui.screens.sheet import AskFirst, Effect, Moment, Say, Sheet, body_height, filled
from ui.served import GrantRow, SessionRow
from ui.served_log import PastSession
from ui.wording import dressed
from ui.world import World

DETAIL_ROWS = 5
ENDED_MOST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """What a live session has asked for that has no end yet."""

    session_id: str
    open: int
    waiting: int

    @property
    def id(self) -> str:
        return f"{self.session_id} under way"


Item: TypeAlias = SessionRow | GrantRow | UnderWay | PastSession


def _listing() -> Listing[Item]:
    return Listing(same=lambda item: item.id, searched=_more_of)


def _more_of(item: Item) -> str:
    match item:
        case SessionRow():
            return f"{item.agent} {item.cwd or ''} {item.label or ''} {item.pid}"
        case GrantRow():
            return f"{item.agent} {item.rule} {item.scope}"
        case UnderWay():
            return "in flight waiting"
        case PastSession():
            return f"{item.agent} {item.pid} ended {item.why or ''}"


@dataclass(slots=True, kw_only=True)
class Sessions(ListScreen[Item]):
    listed: Listing[Item] = field(default_factory=_listing)
    _folded: set[str] = field(default_factory=set)

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet:
        items = _items(world, self._folded)
        room = max(body_height(paper) - DETAIL_ROWS - 1, 1)
        head = row(Span(f" {'Who':<29}{'Age':<7}{'Calls':>6}{'Denied':>8}  Where", Role.FAINT))
        body = [head, *self.rows(items, lambda item: _line(item, paper, now), paper, room, empty="No session is open.")]
        body += _detail(self.listed.focused(items), world, paper)
        alive = f"{len(world.sessions)} alive, {words.counted(len(world.grants), 'grant')}"
        return Sheet(
            title=title(paper, f"Sessions {self.listed.filter_words(paper)}".rstrip(), alive),
            body=filled(body, paper),
            last_rule=last_rule(paper),
            hints=_hints(paper),
        )

    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None:
        del now
        items = _items(world, self._folded)
        item = self.listed.focused(items)
        if key.name == "space" and not self.listed.filtering and isinstance(item, SessionRow):
            self._folded ^= {item.id}
            return ()
        if self.listed.key(key, items):
            return ()
        match key.name:
            case "R" if isinstance(item, SessionRow | GrantRow):
                return (_revoke(item),)
            case "M" if isinstance(item, SessionRow):
                return (AskFirst(question="Mute this session?", task=Mute(session_id=item.id, muted=True)),)
            case "u" if isinstance(item, SessionRow) and item.muted:
                if not world.approver:
                    return (Say(words="unmuting is signed: unlock the approver key first (1, then u)"),)
                return (Mute(session_id=item.id, muted=False),)
            case _:
                return None


def _revoke(item: SessionRow | GrantRow) -> AskFirst:
    match item:
        case SessionRow():
            return AskFirst(question="End this session and its grants?", task=EndSession(session_id=item.id))
        case GrantRow():
            return AskFirst(question="Revoke this grant?", task=RevokeGrant(grant_id=item.id))


def _items(world: World, folded: set[str]) -> list[Item]:
    """Each session with what belongs to it below, then the ended ones."""
    past = {one.id: one for one in world.past}
    out: list[Item] = []
    for session in world.sessions:
        out.append(session)
        if session.id in folded:
            continue
        out += [grant for grant in world.grants if grant.session_id == session.id]
        known = past.get(session.id)
        if known is not None and known.open:
            out.append(UnderWay(session_id=session.id, open=known.open, waiting=known.waiting))
    live = {session.id for session in world.sessions}
    ended = [one for one in world.past if one.ended_at_ms is not None and one.id not in live]
    return [*out, *ended[:ENDED_MOST]]


def _line(item: Item, paper: Paper, now: Moment) -> Row:
    match item:
        case SessionRow():
            return _session_line(item, paper, now)
        case GrantRow():
            left = words.duration(item.expires_at_ms - now.wall_ms)
            effect = paper.foreign(item.effect, limit=24).upper()
            rule_name = cut_end(paper.foreign(item.rule), 18, paper.dots)
            return row(
                f"{paper.own('├─')} grant {rule_name:<20}{words.duration(now.wall_ms - item.made_at_ms):<7}"
                f"{f'{item.used}/{item.max_uses}':>8}        {left} left, {effect}"
            )
        case UnderWay():
            sent = item.open - item.waiting
            waits = f"waiting    {words.counted(item.waiting, 'card')}" if item.waiting else ""
            flight = f"in flight  {words.counted(sent, 'request')}" if sent else ""
            return row(f"{paper.own('└─')} {'   '.join(part for part in (flight, waits) if part)}")
        case PastSession():
            return _past_line(item, paper)


def _past_line(item: PastSession, paper: Paper) -> Row:
    agent = cut_end(paper.foreign(item.agent or "not known"), 13, paper.dots)
    pid = "" if item.pid is None else f"pid {item.pid}"
    lived = "?" if item.opened_at_ms is None else words.duration((item.ended_at_ms or 0) - item.opened_at_ms)
    why = paper.foreign(item.why or "", limit=24)
    end = f"ended {words.clock_time(item.ended_at_ms or 0)[:5]} {why}".rstrip()
    return row(Span(f"{agent:<14}{pid:<15}{lived:<7}{item.requests:>6}{item.denied:>8}  {end}", Role.FAINT))


def _session_line(item: SessionRow, paper: Paper, now: Moment) -> Row:
    name_width = 14 if item.identified else 16  # the pid's column gives way to the sign
    agent = cut_end(paper.foreign(item.agent), 13, paper.dots)
    name = Span(f"{agent:<14}") if item.identified else Span(f"! {agent:<14}", Role.LOOK)
    where = paper.quote(item.cwd, limit=24) if item.cwd else "not known"
    muted = Span("  MUTED", Role.LOOK) if item.muted else Span("")
    pid = f"pid {item.pid}"
    age = words.duration(now.wall_ms - item.opened_at_ms)
    figures = f"{pid:<{29 - name_width}}{age:<7}{item.calls:>6}{item.denied:>8}  "
    return row(name, figures, Span(where, Role.FOREIGN if item.cwd else Role.PLAIN), muted)


def _detail(item: Item | None, world: World, paper: Paper) -> list[Row]:
    match item:
        case None:
            return [row(LINE * paper.width)]
        case SessionRow():
            name = f"{paper.foreign(item.agent, limit=30)} pid {item.pid}"
            label = f"   label says: {paper.quote(item.label, limit=30)}" if item.label else ""
            program = paper.quote(item.exe, limit=paper.width - 12) if item.exe else "not known"
            named = "named by [agents]" if item.identified else "! not named by [agents]; name it: doorward policy add"
            span = {"tree": "this process and what it starts", "process": "this process alone"}.get(
                item.span, "one connection"
            )
            return [
                row(rule(paper.width, LINE, left=name)),
                dressed(f" program {program}"),
                dressed(f" covers  {span}{label}"),
                dressed(f" {named}"),
                row(f" log     {_done(next((one for one in world.past if one.id == item.id), None), paper)}"),
            ]
        case UnderWay():
            lines = [" what these are: screen 2, and 1 for what waits"]
            return [row(rule(paper.width, LINE, left="under way")), *map(row, lines)]
        case PastSession():
            why = paper.foreign(item.why or "", limit=40)
            began = "before the log that is held" if item.opened_at_ms is None else words.clock_time(item.opened_at_ms)
            return [
                row(rule(paper.width, LINE, left=f"{paper.foreign(item.agent, limit=30)}, ended")),
                row(f" began   {began}, ended {words.clock_time(item.ended_at_ms or 0)}: {why}"),
                row(f" log     {_done(item, paper)}"),
                row(f" id      {paper.foreign(item.id, limit=40)}"),
            ]
        case GrantRow():
            scope = paper.foreign(item.scope, limit=paper.width - 12)
            return [
                row(rule(paper.width, LINE, left=f"grant {paper.foreign(item.rule, limit=40)}")),
                row(f" covers  {scope}"),
                row(f" made    {words.clock_time(item.made_at_ms)}, ends {words.clock_time(item.expires_at_ms)}"),
                row(" ends with its session, a lock, a freeze, or a change of what it was given under"),
            ]


_EFFECTS = {"READ": "read", "WRITE": "write", "DELETE": "deletion", "RUN": "run"}


def _done(item: PastSession | None, paper: Paper) -> str:
    """What the log tells that a session did."""
    if item is None:
        return "sealed, or nothing asked yet"
    counts = [words.counted(count, _EFFECTS.get(name, paper.foreign(name, limit=12))) for name, count in item.effects]
    last = "none"
    if item.last_denial is not None:
        at_ms, code = item.last_denial
        last = f"{words.clock_time(at_ms)[:5]} {paper.foreign(code, limit=30)}"
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
