"""The Sessions screen: who is connected, what each session may do without asking, and how to take it away."""

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
from ui.wording import dressed
from ui.world import World

Item: TypeAlias = SessionRow | GrantRow
DETAIL_ROWS = 4


def _listing() -> Listing[Item]:
    return Listing(same=lambda item: item.id, searched=lambda item: f"{item.agent} {_more_of(item)}")


def _more_of(item: Item) -> str:
    match item:
        case SessionRow():
            return f"{item.cwd or ''} {item.label or ''} {item.pid}"
        case GrantRow():
            return f"{item.rule} {item.scope}"


@dataclass(slots=True, kw_only=True)
class Sessions(ListScreen[Item]):
    listed: Listing[Item] = field(default_factory=_listing)

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet:
        items = _items(world)
        room = max(body_height(paper) - DETAIL_ROWS - 1, 1)
        head = row(Span(f" {'Who':<29}{'Age':<7}{'Calls':>6}{'Denied':>8}  Where", Role.FAINT))
        body = [head, *self.rows(items, lambda item: _line(item, paper, now), paper, room, empty="No session is open.")]
        body += _detail(self.listed.focused(items), paper)
        alive = f"{len(world.sessions)} alive, {words.counted(len(world.grants), 'grant')}"
        return Sheet(
            title=title(paper, f"Sessions {self.listed.filter_words(paper)}".rstrip(), alive),
            body=filled(body, paper),
            last_rule=last_rule(paper),
            hints=_hints(paper),
        )

    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None:
        del now
        items = _items(world)
        if self.listed.key(key, items):
            return ()
        item = self.listed.focused(items)
        if item is None:
            return None
        match key.name:
            case "R":
                return (_revoke(item),)
            case "M" if isinstance(item, SessionRow):
                return (AskFirst(question="Mute this session?", task=Mute(session_id=item.id, muted=True)),)
            case "u" if isinstance(item, SessionRow) and item.muted:
                if not world.approver:
                    return (Say(words="unmuting is signed: unlock the approver key first (1, then u)"),)
                return (Mute(session_id=item.id, muted=False),)
            case _:
                return None


def _revoke(item: Item) -> AskFirst:
    match item:
        case SessionRow():
            return AskFirst(question="End this session and its grants?", task=EndSession(session_id=item.id))
        case GrantRow():
            return AskFirst(question="Revoke this grant?", task=RevokeGrant(grant_id=item.id))


def _items(world: World) -> list[Item]:
    """Each session with its grants below it."""
    out: list[Item] = []
    for session in world.sessions:
        out.append(session)
        out += [grant for grant in world.grants if grant.session_id == session.id]
    return out


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


def _detail(item: Item | None, paper: Paper) -> list[Row]:
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
            ]
        case GrantRow():
            scope = paper.foreign(item.scope, limit=paper.width - 12)
            return [
                row(rule(paper.width, LINE, left=f"grant {paper.foreign(item.rule, limit=40)}")),
                row(f" covers  {scope}"),
                row(f" made    {words.clock_time(item.made_at_ms)}, ends {words.clock_time(item.expires_at_ms)}"),
                row(" ends with its session, a lock, a freeze, or a change of what it was given under"),
            ]


def _hints(paper: Paper) -> tuple[Hint, ...]:
    dots = paper.dots
    return (
        Hint(key="j/k", word="row"),
        Hint(key="/", word="filter"),
        Hint(key="R", word=f"revoke{dots}"),
        Hint(key="M", word=f"mute{dots}"),
        Hint(key="u", word="unmute"),
        Hint(key="F", word=f"freeze{dots}"),
        Hint(key="q", word="quit"),
    )
