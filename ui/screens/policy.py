"""The Policy screen: what is in force, what an edit would change, and trusting it with a typed, signed word.

What loosens stands above what tightens, and a loosened line has to be seen before the trust is taken.
"""

from dataclasses import dataclass, field

from broker.client import card_words as words
from ui.answering import Answering, Approve, Barred, Key, Mode, Terms
from ui.frame import Hint, last_rule, title
from ui.listing import Listing, said
from ui.messages import Trust
from ui.paper import CARET, LINE, Paper, Role, Row, Span, cut_end, fit, row, rule, width_of
from ui.screens.sheet import Effect, Moment, Sheet, body_height, filled
from ui.served_policy import ChangeRow, FaultRow, PolicyFacts
from ui.world import World

WORD_DIGITS = 4
ARMING_S = 1.5
_ORDER = {"loosens": 0, "new_reach": 1, "tightens": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """One row of the list: a change, a fault, a warning or a service."""

    id: str
    row: Row
    must: bool = False


def _listing() -> Listing[_Shown]:
    return Listing(same=lambda item: item.id, searched=lambda item: "".join(span.text for span in item.row))


@dataclass(slots=True, kw_only=True)
class PolicyScreen:
    listed: Listing[_Shown] = field(default_factory=_listing)
    answering: Answering = field(default_factory=Answering)
    _about: str | None = None
    _seen: set[str] = field(default_factory=set)
    _drawn: frozenset[str] = frozenset()
    _must: frozenset[str] = frozenset()
    _size: tuple[int, int] = (0, 0)

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
        if self.listed.key(key, self._items(world.policy)):
            self.answering.noticed(now.mono_s)
            return ()
        if key.name == "t" and world.policy is not None and world.policy.waits:
            self.answering.key(Key(name="a"), self._barred(world), now.mono_s)
            return ()
        return None

    def _barred(self, world: World) -> Barred:
        facts = world.policy
        if facts is None or not facts.waits:
            return Barred(approving="nothing to trust", denying=None)
        if self._size[0] < 80 or self._size[1] < 22:
            return Barred(approving="too small: 80x22", denying=None)
        if not world.approver:
            return Barred(approving="approver locked: u", denying=None)
        unseen = not self._must <= self._seen
        return Barred(approving="see the rest: PgDn" if unseen else None, denying=None)

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet:
        facts = world.policy
        if facts is None:
            body = said("Not told yet.")
            return Sheet(
                title=title(paper, "Policy"), body=filled(body, paper), last_rule=last_rule(paper), hints=_hints(paper)
            )
        self._begin_anew(facts, paper)
        items = self._items(facts)
        head = _head(facts, paper)
        answers = self._answer_rows(facts, world, paper, now) if facts.waits else []
        room = max(body_height(paper) - len(head) - len(answers), 1)
        listed = self.listed.rows(items, lambda item: item.row, paper, room)
        shown = self.listed.matching(items)[self.listed.top : self.listed.top + room]
        self._drawn = frozenset(item.id for item in shown)
        self._must = frozenset(item.id for item in items if item.must)
        name = "Policy: a change waits for your trust" if facts.waits else "Policy"
        force = (
            f"in force: {words.short_digest(facts.digest)}, counter {facts.counter}"
            if facts.digest
            else "none in force: all is denied"
        )
        return Sheet(
            title=title(paper, f"{name} {self.listed.filter_words(paper)}".rstrip(), force),
            body=filled([*head, *listed, *answers], paper),
            last_rule=last_rule(paper),
            hints=_hints(paper),
        )

    def _begin_anew(self, facts: PolicyFacts, paper: Paper) -> None:
        """Another change, or another size: it has to be seen and armed again."""
        if (self._about, self._size) == (facts.pending_digest, (paper.width, paper.height)):
            return
        self._about, self._size = facts.pending_digest, (paper.width, paper.height)
        self._seen.clear()
        word = (facts.pending_digest or "").removeprefix("sha256:")[:WORD_DIGITS]
        self.answering.begin(Terms(typed_word=word, session_offered=False), ARMING_S)

    def _items(self, facts: PolicyFacts | None) -> list[_Shown]:
        if facts is None:
            return []
        paper = Paper(width=self._size[0], height=self._size[1])
        out = [_shown_fault(f"f{at}", fault, paper, word="FAULT") for at, fault in enumerate(facts.faults)]
        ordered = sorted(enumerate(facts.changes), key=lambda pair: _ORDER.get(pair[1].direction, 1))
        out += [_shown_change(f"c{at}", change, paper) for at, change in ordered]
        out += [_shown_fault(f"w{at}", one, paper, word="warning") for at, one in enumerate(facts.warnings)]
        if not facts.waits:
            out += [_shown_service(f"s{at}", service, paper) for at, service in enumerate(facts.services)]
        return out

    def _answer_rows(self, facts: PolicyFacts, world: World, paper: Paper, now: Moment) -> list[Row]:
        barred = self._barred(world).approving
        arming = self.answering.arming
        waiting = "ready" if arming.ready(now.mono_s) else f"wait {max(arming.left_s(now.mono_s), 0.1):.1f} s"
        slot = barred or waiting
        end = (Span(f" {slot} ", Role.LOOK if barred else Role.KEY), Span(LINE))
        top = (*fit(row(rule(paper.width, LINE, left="A yes covers")), paper.width - width_of(end)), *end)
        word = self.answering.terms.typed_word or ""
        files = words.counted(len(facts.pending_files), "file")
        keys: Row = row(" ", Span("t", Role.KEY), f" Trust the new (type {word})   any other key leaves it as it is")
        if self.answering.mode is Mode.TYPING:
            typed = paper.foreign(self.answering.text)
            note = self.answering.note or "Enter signs, Esc leaves"
            keys = row(
                f" Type {word} to trust: ", Span(f"[{typed}{CARET}{' ' * (6 - len(typed))}]", Role.FOCUS), f"  {note}"
            )
        return [
            top,
            row(
                " ",
                Span("t", Role.KEY),
                f"  these {files}, byte for byte, counter {facts.pending_counter}. Waiting cards and grants end.",
            ),
            row("    Without it the files stay as they are, and the old policy stays in force."),
            (),
            keys,
        ]


def _head(facts: PolicyFacts, paper: Paper) -> list[Row]:
    files = ", ".join(paper.foreign(name, limit=40) for name in facts.files) or "none"
    rows = [row(cut_end(f" In force  {facts.rules} rules in {files}", paper.width - 1, paper.dots))]
    if facts.faults:
        rows.append(
            row(
                Span(
                    f" The edited files have {words.counted(len(facts.faults), 'fault')}; they can not be trusted.",
                    Role.LOOK,
                )
            )
        )
    elif facts.waits and facts.pending_digest is not None:
        looser = sum(_ORDER.get(change.direction, 1) < 2 for change in facts.changes)
        counts = f"{looser} loosened or in reach   {len(facts.changes) - looser} tightened"
        rows.append(row(f" New       {words.short_digest(facts.pending_digest)}   {counts}"))
    elif facts.digest is None:
        rows.append(row(" There are no policy files yet: doorward policy add"))
    else:
        rows.append(row(" The files are as they were trusted."))
    return [*rows, ()]


def _shown_change(key: str, change: ChangeRow, paper: Paper) -> _Shown:
    looser = _ORDER.get(change.direction, 1) < 2
    room = max(paper.width - 44, 20)
    subject = cut_end(paper.foreign(change.subject), room, paper.dots)
    was, becomes = (
        cut_end(paper.foreign(change.was), 14, paper.dots),
        cut_end(paper.foreign(change.becomes), 14, paper.dots),
    )
    sign = Span("! ", Role.LOOK) if looser else Span("  ")
    direction = cut_end(paper.foreign(change.direction), 9, paper.dots)
    return _Shown(id=key, must=looser, row=row(sign, f"{direction:<10}{subject:<{room}} {was:<14} > {becomes}"))


def _shown_fault(key: str, fault: FaultRow, paper: Paper, *, word: str) -> _Shown:
    place = f"{paper.foreign(fault.file, limit=30)}:{fault.line} {paper.foreign(fault.key, limit=30)}"
    expected = f"; expected {paper.foreign(fault.expected, limit=80)}" if fault.expected else ""
    return _Shown(
        id=key, row=row(Span(f"! {word} ", Role.LOOK), f"{place}: {paper.foreign(fault.problem, limit=160)}{expected}")
    )


def _shown_service(key: str, service: tuple[str, str, str, bool], paper: Paper) -> _Shown:
    name, url, credential, bound = service
    bind = "bound" if bound else "NOT BOUND"
    text = f"service {paper.foreign(name, limit=24):<16} {paper.foreign(url, limit=40):<34} "
    return _Shown(
        id=key,
        row=row(
            text,
            f"{paper.foreign(credential or 'no credential', limit=24)} ",
            Span(bind, Role.PLAIN if bound else Role.LOOK),
        ),
    )


def _hints(paper: Paper) -> tuple[Hint, ...]:
    return (
        Hint(key="j/k", word="change"),
        Hint(key="PgDn", word="more"),
        Hint(key="1-7", word="screens"),
        Hint(key="F", word=f"freeze{paper.dots}"),
        Hint(key="q", word="quit"),
    )
