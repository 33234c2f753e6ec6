"""The Policy screen: what is in force, what an edit would change, and trusting it with a typed, signed word.

What loosens, or brings something newly in reach, has to be seen before the trust is taken: its row whole, or where
the row is cut its detail. All policy text is foreign, for an agent could have written it.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.client import card_words as words
from ui.answering import Answering, Approve, Barred, Key, Mode, Terms
from ui.dates import near
from ui.frame import Hint, last_rule, title
from ui.kept import Kept
from ui.listing import Listing, said
from ui.messages import Trust
from ui.paper import CARET, LINE, Paper, Role, Row, Span, cut_end, fit, row, rule, text_of, width_of, wrap
from ui.policy_rows import Shown, fault_words, shown_of, warnings_of
from ui.screens.sheet import Effect, Moment, Say, Sheet, body_height, filled
from ui.scrolled import Scrolled
from ui.served_log import ActivityRow
from ui.served_policy import ChangeRow, PolicyFacts
from ui.world import World

WORD_DIGITS = 4
ARMING_S = 1.5
DETAIL_ROWS, DETAIL_ROWS_TALL = 3, 12
TALL = 30
LINES, WARNINGS = "lines", "warnings"
_SIGNS = {"+": Role.LOOK, "-": Role.NO}


def _listing() -> Listing[Shown]:
    return Listing(same=lambda item: item.id, searched=lambda item: text_of(item.row), still=lambda item: item.heading)


@dataclass(slots=True, kw_only=True)
class PolicyScreen:
    listed: Listing[Shown] = field(default_factory=_listing)
    answering: Answering = field(default_factory=Answering)
    own_uid: int = field(default_factory=os.geteuid)
    _about: str | None = None
    _seen: set[str] = field(default_factory=set)
    _drawn: frozenset[str] = frozenset()
    _must: frozenset[str] = frozenset()
    _cut: frozenset[str] = frozenset()
    _in_sight: frozenset[str] = frozenset()
    _too_long: bool = False
    _paper: Paper = field(default_factory=lambda: Paper(width=0, height=0))
    _items: "Kept[Sequence[Shown]]" = field(default_factory=Kept)
    _musts: "Kept[frozenset[str]]" = field(default_factory=Kept)
    _cuts: "Kept[frozenset[str]]" = field(default_factory=Kept)
    _heads: "Kept[list[Row]]" = field(default_factory=Kept)
    _since: "Kept[int | None]" = field(default_factory=Kept)
    _opened: Scrolled = field(default_factory=Scrolled)

    def in_field(self, world: World) -> bool:
        return world.lost is None and (self.listed.filtering or self.answering.in_field)

    def paste(self, text: str, world: World) -> None:
        if world.lost is None and not self.answering.in_field:
            self.listed.paste(text)

    def tick(self, world: World, now: Moment) -> tuple[Effect, ...]:
        answer = self.answering.due(self._barred(world), now.mono_s)
        if world.policy is None or not isinstance(answer, Approve) or world.policy.pending_digest is None:
            return ()
        return (Trust(digest=world.policy.pending_digest, counter=world.policy.pending_counter),)

    def painted(self, now: Moment) -> None:
        self._seen |= self._drawn
        if self._drawn and self._must <= self._seen:
            self.answering.arming.drawn(now.mono_s)

    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None:
        if self.answering.mode is Mode.TYPING:
            self.answering.key(key, self._barred(world), now.mono_s)
            return ()
        if self._opened.on is not None:
            self.answering.noticed(now.mono_s)
            return self._opened.key(key)
        if self.listed.key(key, self._of(world.policy)):
            self.answering.noticed(now.mono_s)
            return ()
        waits = world.policy is not None and world.policy.waits
        match key.name:
            case "t" if waits:
                self.answering.key(Key(name="a"), self._barred(world), now.mono_s)
                return ()
            case "d" if waits:
                return (Say(words="nothing was changed: the old policy stays in force until the new one is trusted"),)
            case "e" | "enter" | "v":
                self.answering.noticed(now.mono_s)
                self._opened.open(WARNINGS if key.name == "v" else LINES)
                return ()
            case _:
                return None

    def _barred(self, world: World) -> Barred:
        facts = world.policy
        if facts is None or not facts.waits:
            return Barred(approving="nothing to trust", denying=None)
        if self._paper.width < 80 or self._paper.height < 22:
            return Barred(approving="too small: 80x22", denying=None)
        if not world.approver:
            return Barred(approving="approver locked: u", denying=None)
        unseen = self._must - self._seen
        told = "see the rest: PgDn"
        if unseen <= self._in_sight:
            told = "see each: j"  # a cut row is seen in its detail
        elif unseen <= self._cut:
            told = "see each: j k"  # paging would show none of them whole
        told = "see it whole: e" if self._too_long else told
        return Barred(approving=told if unseen else None, denying=None)

    def _of(self, facts: PolicyFacts | None) -> Sequence[Shown]:
        paper = self._paper
        return () if facts is None else self._items.of(lambda: shown_of(facts, paper), facts, paper)

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet:
        facts = world.policy
        if facts is None:
            body = filled(said("Not told yet."), paper)
            return Sheet(title=title(paper, "Policy"), body=body, last_rule=last_rule(paper), hints=_hints(paper))
        self._begin_anew(facts, paper)
        items = self._of(facts)
        item = self.listed.focused(items)
        if self._opened.on is not None:
            name, lines = _page(self._opened.on, item, facts, paper)
            sheet = self._opened.sheet(name, lines, paper)
            whole = (
                item is not None
                and self._opened.on == LINES
                and all(line in sheet.body for line in _in_full(item, paper))
            )
            self._drawn = frozenset({item.id} if item is not None and whole else ())
            return sheet
        head = self._heads.of(lambda: _head(facts, paper, now, self.own_uid), facts, paper)
        since = self._since.of(lambda: _trusted_at_ms(world.activity), world.activity)
        answers = self._answer_rows(facts, world, paper, now) if facts.waits else []
        detail = _detail(item, paper, DETAIL_ROWS if paper.height < TALL else DETAIL_ROWS_TALL)
        room = max(body_height(paper) - len(head) - len(detail) - len(answers), 1)
        rows = self.listed.rows(items, lambda one: one.row, paper, room)
        shown = self.listed.matching(items)[self.listed.top : self.listed.top + room]
        self._drawn = frozenset(
            one.id for one in shown if not one.cut or (one is item and _told_whole(one, detail, paper))
        )
        self._too_long = item is not None and item.must and item.cut and item.id not in self._drawn | self._seen
        self._in_sight = frozenset(one.id for one in shown)
        self._must = self._musts.of(lambda: frozenset(one.id for one in items if one.must), items)
        self._cut = self._cuts.of(lambda: frozenset(one.id for one in items if one.cut), items)
        return Sheet(
            title=title(
                paper, f"{_name(facts)} {self.listed.filter_words(paper)}".rstrip(), _in_force(facts, since, now)
            ),
            body=filled([*head, *rows, *detail, *answers], paper),
            last_rule=last_rule(paper),
            hints=_hints(paper) if facts.waits else _calm_hints(paper),
        )

    def _begin_anew(self, facts: PolicyFacts, paper: Paper) -> None:
        """Another change, or another size: it has to be seen and armed again."""
        if (self._about, self._paper) == (facts.pending_digest, paper):
            return
        self._about, self._paper = facts.pending_digest, paper
        self._seen.clear()
        word = (facts.pending_digest or "").removeprefix("sha256:")[:WORD_DIGITS]
        self.answering.begin(Terms(typed_word=word, session_offered=False), ARMING_S)

    def _answer_rows(self, facts: PolicyFacts, world: World, paper: Paper, now: Moment) -> list[Row]:
        barred = self._barred(world).approving
        arming = self.answering.arming
        waiting = "ready" if arming.ready(now.mono_s) else f"wait {max(arming.left_s(now.mono_s), 0.1):.1f} s"
        end = (Span(f" {barred or waiting} ", Role.LOOK if barred else Role.KEY), Span(LINE))
        top = (*fit(row(rule(paper.width, LINE, left="A yes covers")), paper.width - width_of(end)), *end)
        files = words.counted(len(facts.pending_files), "file")
        covers = f"  {'this file' if len(facts.pending_files) == 1 else f'these {files}'}, byte for byte, "
        covers += f"counter {facts.pending_counter}. {_voided(facts)}"
        return [
            top,
            row(" ", Span("t", Role.KEY), covers),
            row(" ", Span("d", Role.KEY), "  nothing: the files stay as they are, the old policy stays in force."),
            (),
            self._keys(facts, paper),
        ]

    def _keys(self, facts: PolicyFacts, paper: Paper) -> Row:
        word = self.answering.terms.typed_word or ""
        if self.answering.mode is Mode.TYPING:
            typed = paper.foreign(self.answering.text)
            field_ = Span(f"[{typed}{CARET}{' ' * (6 - len(typed))}]", Role.FOCUS)
            return row(f" Type {word} to trust: ", field_, f"  {self.answering.note or 'Enter signs, Esc leaves'}")
        count = len(warnings_of(facts))
        warned = row("  ", Span("v", Role.KEY), f" Warnings {count}") if count else ()
        keep, trust, exact = Span("[d Keep the old]", Role.FOCUS), f" Trust the new (type {word})  ", " Exact lines"
        return row(" ", keep, "  ", Span("t", Role.KEY), trust, Span("e", Role.KEY), exact, *warned)


def _name(facts: PolicyFacts) -> str:
    if facts.faults:
        return "Policy: an edit was refused"
    return "Policy: a change waits for your trust" if facts.waits else "Policy"


def _trusted_at_ms(rows: Sequence[ActivityRow] | None) -> int | None:
    """By the log, as far as this window has read it."""
    return next((one.at_ms for one in rows or () if one.event == "policy.trusted"), None)


def _in_force(facts: PolicyFacts, trusted_at_ms: int | None, now: Moment) -> str:
    if not facts.digest:
        return "none in force: all is denied"
    since = f"counter {facts.counter}" if trusted_at_ms is None else near(trusted_at_ms, now.wall_ms)
    return f"in force: {words.short_digest(facts.digest).removeprefix('sha256:')}, {since}"


def _voided(facts: PolicyFacts) -> str:
    if facts.voids is None:
        return "Waiting cards and grants end."
    cards, grants = facts.voids
    return f"Voids {words.counted(cards, 'waiting card')}, {words.counted(grants, 'grant')}."


def _head(facts: PolicyFacts, paper: Paper, now: Moment, own_uid: int) -> list[Row]:
    if facts.faults:
        said_ = f" ! The edited files have {words.counted(len(facts.faults), 'fault')} and can not be trusted."
        old = "The old policy stays in force." if facts.digest else "Nothing is in force."
        return [row(Span(said_, Role.LOOK)), row(f"   {old}{_edited(facts, now, own_uid)}"), ()]
    if facts.waits and facts.pending_digest is not None:
        digest = words.short_digest(facts.pending_digest)
        new = row(" ", Span("New", Role.LABEL), f"     {digest}{_edited(facts, now, own_uid)}")
        return [new, row(" ", Span("Effect", Role.LABEL), f"  {_effect(facts)}"), ()]
    if facts.digest is None:
        return [row(" There are no policy files yet: doorward policy add"), ()]
    files = ", ".join(paper.foreign(name, limit=60) for name in (*facts.files, *facts.system)) or "no file"
    count = len(warnings_of(facts))
    warned = row("   ", Span("v", Role.KEY), f" Warnings {count}") if count else ()
    named = cut_end(f"{words.counted(facts.rules, 'rule')} in {files}", paper.width - 30, paper.dots)
    return [
        row(" ", Span("In force", Role.LABEL), f"  {named}", *warned),
        row(" The files are as they were trusted."),
        (),
    ]


def _edited(facts: PolicyFacts, now: Moment, own_uid: int) -> str:
    """How many files, when and by whom; the disk's word, and so is told as such."""
    if not facts.edited:
        return ""
    times = [one.modified_at_ms for one in facts.edited if one.modified_at_ms is not None]
    owners = sorted({one.uid for one in facts.edited if one.uid is not None})
    at = f" {near(max(times), now.wall_ms)}" if times else ""
    by = f" by uid {', '.join(map(str, owners))}" if owners else ""
    agents = ", as which agents run" if owners == [own_uid] else ""
    return f"   {words.counted(len(facts.edited), 'file')} edited{at}{by}{agents}"


def _effect(facts: PolicyFacts) -> str:
    counts = {name: sum(one.direction == name for one in facts.changes) for name in ("tightens", "new_reach")}
    looser = len(facts.changes) - sum(counts.values())
    unchanged = "" if facts.unchanged is None else f"   {facts.unchanged} unchanged"
    reach = f"   {counts['new_reach']} newly in reach" if counts["new_reach"] else ""
    return f"{looser} loosened   {counts['tightens']} tightened{unchanged}{reach}"


def _detail(item: Shown | None, paper: Paper, height: int) -> list[Row]:
    """What stands behind the row in focus: its lines in the files, or what is wrong, whole."""
    if item is None:
        return [row(LINE * paper.width), *[()] * (height - 1)]
    name, lines = "", list[Row]()
    if item.change is not None:
        name, lines = _place(item.change, paper), [*_whole(item, paper), *_lines(item.change, paper)]
    elif item.rule is not None:
        told = item.rule
        place = f"{paper.foreign(told.place, limit=60)}  " if told.place else ""
        reason = paper.quote(told.reason, limit=200) if told.reason else "none given"
        name = f"{place}rule {paper.foreign(told.id, limit=40)}"
        about = wrap(f"about   {paper.foreign(told.about, limit=600)}", paper.width - 2)
        lines = [row(" reason  ", Span(reason, Role.FOREIGN)), *(row(f" {line}") for line in about)]
    elif item.fault is not None:
        name = paper.foreign(item.fault.file, limit=60)
        lines = [row(f" {line}") for line in wrap(fault_words(item.fault, paper), paper.width - 2)]
    if len(lines) > height - 1:
        left = len(lines) - height + 2
        lines = [*lines[: height - 2], row(Span(f" {words.counted(left, 'more line')}: e", Role.LOOK))]
    return [row(rule(paper.width, LINE, left=name)), *lines, *[()] * (height - 1 - len(lines))]


def _whole(item: Shown, paper: Paper) -> list[Row]:
    """A change whose row is cut, in full: what has to be seen is seen here then."""
    if not item.cut or item.change is None:
        return []
    change = item.change
    whole = f"{change.subject}: {change.was} > {change.becomes}"
    return [row(Span(f" {line}", Role.FOREIGN)) for line in wrap(paper.foreign(whole), paper.width - 2)]


def _told_whole(item: Shown, detail: list[Row], paper: Paper) -> bool:
    return all(line in detail for line in _whole(item, paper))


def _in_full(item: Shown, paper: Paper) -> list[Row]:
    """What the page of all lines begins with."""
    if item.change is None:
        return []
    change, room = item.change, paper.width - 12
    rows = [row(Span(f" {line}", Role.FOREIGN)) for line in wrap(paper.foreign(change.subject), paper.width - 4)]
    for label, value in (("was", change.was), ("becomes", change.becomes)):
        lines = wrap(paper.foreign(value), room)
        rows += [row(f" {label if at == 0 else '':<9}{line}") for at, line in enumerate(lines)]
    return rows


def _place(change: ChangeRow, paper: Paper) -> str:
    place = paper.foreign(change.place or "not told where", limit=60)
    rule_ = f"  rule {paper.foreign(change.rule, limit=40)}" if change.rule else ""
    signs = {sign for sign, _ in change.lines}
    new, gone = "+" in signs, "-" in signs
    state = (" (changed)" if new and gone else " (new)" if new else " (gone)") if new or gone else ""
    return f"{place}{rule_}{state}"


def _lines(change: ChangeRow, paper: Paper) -> list[Row]:
    """The changed ones first: what did not change is context, and stands on the page of all lines."""
    changed = [line for line in change.lines if line[0] != " "] or list(change.lines)
    return [_text_line(sign, text, paper) for sign, text in changed]


def _text_line(sign: str, text: str, paper: Paper) -> Row:
    mark = sign if sign in _SIGNS else " "
    return fit(
        row(" ", Span(mark, _SIGNS.get(sign, Role.PLAIN)), " ", Span(paper.foreign(text), Role.FOREIGN)), paper.width
    )


def _page(which: str, item: Shown | None, facts: PolicyFacts, paper: Paper) -> tuple[str, list[Row]]:
    """All lines of a change, or all warnings, nothing cut."""
    room = paper.width - 4
    if which == WARNINGS:
        found = warnings_of(facts)
        rows: list[Row] = [()] if found else said("There are no warnings.")
        for fault in found:
            first, *more = wrap(fault_words(fault, paper), room)
            rows += [row(Span(" ! ", Role.LOOK), first), *(row(f"   {line}") for line in more)]
        return f"Policy: {words.counted(len(found), 'warning')}", rows
    if item is None or item.change is None:
        whole = [] if item is None else wrap(text_of(item.row).strip(), room)
        detail = [] if item is None else _detail(item, paper, 1 << 10)
        return "Policy", [*(row(f" {line}") for line in whole), *detail]
    change = item.change
    rows = [*_in_full(item, paper), ()]
    for sign, text in change.lines:
        first, *more = wrap(paper.foreign(text), room)
        rows += [_text_line(sign, "", paper)[:2] + row(f" {first}"), *(row(f"   {line}") for line in more)]
    return f"Policy: {_place(change, paper)}", rows


def _hints(paper: Paper) -> tuple[Hint, ...]:
    return (
        Hint(key="j/k", word="change, its lines below"),
        Hint(key="1-7", word="screens"),
        Hint(key="F", word=f"freeze{paper.dots}"),
        Hint(key="q", word="quit"),
        Hint(key="/", word="filter"),
    )


def _calm_hints(paper: Paper) -> tuple[Hint, ...]:
    return (
        Hint(key="j/k", word="rule"),
        Hint(key="e", word="exact"),
        Hint(key="v", word="warnings"),
        Hint(key="/", word="filter"),
        Hint(key="1-7", word="screens"),
        Hint(key="F", word=f"freeze{paper.dots}"),
        Hint(key="q", word="quit"),
    )
