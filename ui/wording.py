"""What a card says, part by part, as styled lines of a given width: the words come from `broker.client.card_words`.

Order and must-see parts are fixed: trouble first, then who asks; a yes is not taken before those were on the screen.
What is the agent's own stands in quotes. Pure: same card, width and time, same lines.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from broker.client import card_words as words
from broker.client import evidence_words, ssh_words
from broker.client.before_words import sentences
from broker.client.card import Card, EarlierAttempt
from broker.client.card_ssh import Ssh
from broker.client.control import Served
from broker.contract.neutralise import cells, visible
from ui.paper import Paper, Role, Row, Span, cut_middle, fit, row, wrap_row

LABEL_WIDTH = 9
WIDE = 120
FINGERPRINT_INDENT = 4
SHORT_ID = 20
BODY_ROWS = 8
BODY_ROWS_WIDE = 12

_PIECES = re.compile(r'"(?:[^"\\]|\\.)*"|TWICE')
_ESCAPES = re.compile(r"\\(?:u\{[0-9a-f]+\}|\{[^}]*\}|[ntr\\\"])")
_SIGNS = {"! ": Role.LOOK, "? ": Role.UNKNOWN, "+ ": Role.GOOD}
_SECTIONS = {
    "Evidence": "evidence",
    "In doubt": "doubts",
    "Who": "who",
    "Why": "why",
    "Uses": "uses",
    "Body": "body",
    "What": "summary",
    "Host key": "ssh",
    "Command": "ssh",
    "Target": "target",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A label and its lines, each as long as it likes; `must` parts have to be seen before a yes."""

    label: str
    lines: tuple[Row, ...]
    must: bool = False
    group: int = 0
    indent: int | None = None  # instead of the label's column: for what may not be folded


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of the scrolled part, exactly as wide as it may be."""

    row: Row
    must: bool


def dressed(text: str) -> Row:
    """A finished sentence in its roles: its sign, the quoted words of others, our escapes."""
    out: list[Span] = []
    role = Role.PLAIN
    sign = _SIGNS.get(text[:2])
    if sign is not None:
        out.append(Span(text[0], sign))
        text = text[1:]
        role = sign if sign is not Role.GOOD else role
    at = 0
    for match in _PIECES.finditer(text):
        out.append(Span(text[at : match.start()], role))
        out.append(Span(match.group(), Role.DANGER if match.group() == "TWICE" else Role.FOREIGN))
        at = match.end()
    out.append(Span(text[at:], role))
    return escapes_shown(out)


def escapes_shown(line: Iterable[Span]) -> Row:
    """The escapes in words of others stand out."""
    out: list[Span] = []
    for span in line:
        at = 0
        for match in _ESCAPES.finditer(span.text):
            out += [Span(span.text[at : match.start()], span.role), Span(match.group(), Role.ESCAPE)]
            at = match.end()
        out.append(Span(span.text[at:], span.role))
    return tuple(span for span in out if span.text)


def effect_role(effect: str) -> Role:
    return {"DELETE": Role.DANGER, "WRITE": Role.LOOK, "RUN": Role.LOOK}.get(effect, Role.LABEL)


def summary_row(card: Card, paper: Paper, width: int) -> Row:
    """Row 4: effect, operation, and what identifies the target."""
    line = cut_middle(paper.drawable(words.summary(card)), width, paper.dots)
    effect = card.summary.effect
    if not line.startswith(effect):
        return dressed(line)
    return (Span(effect, effect_role(effect)), *escapes_shown([Span(line[len(effect) :])]))


def target_row(card: Card, paper: Paper, width: int) -> Row:
    """Row 5: method and URL as they will be sent."""
    line = cut_middle(_target(card, paper), width - 2, paper.dots)
    mark = Span("! ", Role.LOOK) if line.startswith("! ") else Span("")
    return (Span("  "), mark, *escapes_shown([Span(line.removeprefix("! "))]))


def _target(card: Card, paper: Paper) -> str:
    return paper.drawable(words.target(card, whole_url=paper.width >= WIDE))


def parts(served: Served, paper: Paper, width: int, now_ms: int) -> list[Part]:
    """The card from under its target down, in the order of the contract."""
    card = served.card
    wide = paper.width >= WIDE
    out = [*_cut_off(card, paper, width), *_trouble(card, now_ms, paper), *_who(served, now_ms, wide=wide)]
    out.append(part("Why", [_why(card, wide=wide), *(_ruled(card) if wide else [])], group=2))
    out.append(part("Uses", [words.uses(card if wide else _unversioned(card))], group=2))
    if card.ssh is not None:
        out += _left_there(card.ssh)
    none_needed = [] if card.evidence.needed else [part("Evidence", [evidence_words.NONE_NEEDED], group=2)]
    body = _body(served, rows=BODY_ROWS_WIDE if wide else BODY_ROWS, width=width - LABEL_WIDTH)
    out += [body, *none_needed] if _in_trouble(card) and not wide else [*none_needed, body]
    if wide:
        out += [*_before(card, now_ms), part("Exact", [words.digests(card, served.digest, whole=False)], group=3)]
    elif card.typed_word is not None:
        policy, request = words.short_digest(card.why.policy), words.short_digest(card.request_digest)
        out.append(part("Policy", [f"{policy}  request {request}"], group=3))
    return out if wide else [*out, *_before(card, now_ms)]


def laid_out(
    blocks: Sequence[Part], paper: Paper, width: int, *, changed: frozenset[str] = frozenset(), gaps: bool
) -> list[Line]:
    """Parts as rows: labels in their own column, long lines folded, a blank row between groups where asked for."""
    out: list[Line] = []
    group = blocks[0].group if blocks else 0
    for block in blocks:
        if gaps and block.group != group:
            out.append(Line(row=fit((), width), must=False))
        group = block.group
        first = True
        for line in _drawable(block, paper).lines:
            if block.indent is not None:
                out.append(Line(row=fit((Span(" " * block.indent), *line), width), must=block.must))
                continue
            for folded in wrap_row(line, width - LABEL_WIDTH):
                label = _label(block.label if first else "", changed=first and block.label in changed)
                out.append(Line(row=fit((*label, *folded), width), must=block.must))
                first = False
    return out


def _label(label: str, *, changed: bool) -> Row:
    if changed:
        return (Span(f"{label:<{LABEL_WIDTH - 1}}", Role.LABEL), Span("!", Role.LOOK))
    return (Span(f"{label:<{LABEL_WIDTH}}", Role.LABEL),)


def differences(old: Served, new: Served) -> frozenset[str]:
    """Labels of the parts that are not as they were."""
    changed = {label for label, key in _SECTIONS.items() if old.raw.get(key) != new.raw.get(key)}
    if old.joined != new.joined:
        changed.add("Who")
    return frozenset(changed)


def part(label: str, lines: Iterable[str], *, must: bool = False, group: int = 0) -> Part:
    return Part(label=label, lines=tuple(dressed(line) for line in lines), must=must, group=group)


def _drawable(block: Part, paper: Paper) -> Part:
    if not paper.ascii_only:
        return block
    lines = tuple(tuple(Span(paper.drawable(span.text), span.role) for span in line) for line in block.lines)
    return replace(block, lines=lines)


def _cut_off(card: Card, paper: Paper, width: int) -> list[Part]:
    """What rows 4 and 5 had to cut is shown whole, and has to be seen."""
    out: list[Part] = []
    if card.ssh is not None and words.summary_was_cut(card, width):
        lines = tuple(foreign_row(line) for line in ssh_words.command_lines(card.ssh))
        out.append(Part(label="Command", lines=lines, must=True))
    elif words.summary_was_cut(card, width):
        out.append(part("What", [words.summary(card)], must=True))
    if cells(_target(card, paper)) > width - 2:
        out.append(part("Target", [words.target(card, whole_url=True)], must=True))
    return out


def _trouble(card: Card, now_ms: int, paper: Paper) -> list[Part]:
    out: list[Part] = _first_contact(card.ssh) if card.ssh is not None and card.ssh.is_first_contact else []
    if card.evidence.needed:
        out.append(part("Evidence", evidence_words.sentences(card.evidence, now_ms), must=True))
    if card.evidence.has_gap:
        out.append(part("Targets", evidence_words.targets(card.evidence), must=True))
    out += [part("In doubt", _attempt(attempt, now_ms, paper), must=True) for attempt in card.doubts]
    return out


def _attempt(attempt: EarlierAttempt, now_ms: int, paper: Paper) -> list[str]:
    """In a narrow window its id is cut in the middle; `e` has it whole."""
    named = visible(attempt.correlation_id)
    short = named if paper.width >= WIDE else cut_middle(named, SHORT_ID, paper.dots)
    return [line.replace(named, short) for line in words.earlier(attempt, now_ms)]


def _first_contact(ssh: Ssh) -> list[Part]:
    """The fingerprint stands whole in a row of its own."""
    print_row = row(ssh_words.fingerprint(ssh))
    return [
        part("Host key", ssh_words.host_key(ssh), must=True),
        Part(label="", lines=(print_row,), must=True, indent=FINGERPRINT_INDENT),
        part("", ssh_words.after_fingerprint(), must=True),
    ]


def _left_there(ssh: Ssh) -> list[Part]:
    parts = [] if ssh.is_first_contact else [part("Host key", ssh_words.host_key(ssh), group=2)]
    leaves = ssh_words.leaves(ssh)
    return [*parts, part("Leaves", leaves, group=2)] if leaves else parts


def _who(served: Served, now_ms: int, *, wide: bool) -> list[Part]:
    """With trouble above it and no grant on offer, what the session spans gives way in a narrow window."""
    card = served.card
    named = ", named by [agents]" if wide and card.who.identified else ""
    spans = wide or card.yes.session.offered or not _in_trouble(card)
    lines = [words.who(card, now_ms) + named, *words.joined(served.joined), *([words.span(card)] if spans else [])]
    if wide:
        program, *rest = words.place(card)
        lines += [words.chain(card), program, *(["   ".join(rest)] if rest else [])]
    naming = words.naming(card)
    return [
        part("Who", [*lines, *words.doubts_about_who(card), *words.says(card)], must=True, group=1),
        *([part("", naming, group=1)] if naming else []),
    ]


def _in_trouble(card: Card) -> bool:
    first_contact = card.ssh is not None and card.ssh.is_first_contact
    return bool(card.evidence.has_gap or card.doubts or first_contact)


def _why(card: Card, *, wide: bool) -> str:
    """In a narrow window a gap leaves out that the rule asks each time: what it needs is the point."""
    if wide or not card.evidence.has_gap or not card.why.reason:
        return words.why(card)
    return f"rule {visible(card.why.rule)}: {visible(card.why.reason)}"


def _ruled(card: Card) -> list[str]:
    policy = f"policy {words.short_digest(card.why.policy)}"
    place, *others = [*words.where_ruled(card), ""]
    return [f"{place}   {policy}" if place else policy, *(line for line in others if line)]


def _unversioned(card: Card) -> Card:
    return replace(card, uses=replace(card.uses, version=None))


@dataclass(frozen=True, slots=True)
class Named:
    """A card under its digest: equal digests are equal cards. What is costly is worked out once for each."""

    digest: str
    card: Card = field(compare=False)


def _body(served: Served, *, rows: int, width: int) -> Part:
    named = Named(served.digest, served.card)
    text = body_text(named, width)
    left = len(text) - rows
    more = (
        [row(Span(f"{words.counted(left, 'more row')}   ", Role.LOOK), Span("o", Role.KEY), " opens")]
        if left > 0
        else []
    )
    return Part(label="Body", lines=(body_head(named), *text[:rows], *more), group=3)


@lru_cache(maxsize=8)
def body_head(named: Named) -> Row:
    return dressed(words.body(named.card))


@lru_cache(maxsize=8)
def body_text(named: Named, width: int) -> tuple[Row, ...]:
    lines = words.body_lines(named.card)
    lines = lines[:-1] if lines and not lines[-1] else lines  # the line end at the end of a text is no line
    return tuple(folded for line in lines for folded in wrap_row(foreign_row(line), width))


def foreign_row(safe: str) -> Row:
    """Text of others that already went through the neutraliser, in its role."""
    return escapes_shown([Span(safe, Role.FOREIGN)])


def _before(card: Card, now_ms: int) -> list[Part]:
    """What a human said to the like earlier, and how this request differs from the last one that was approved."""
    lines = [_difference(line) if line[:2] in {"- ", "+ "} else dressed(line) for line in sentences(card, now_ms)]
    return [Part(label="Before", lines=tuple(lines), group=3)] if lines else []


def _difference(line: str) -> Row:
    """`- was` or `+ is`: its sign proves nothing here."""
    return (Span(line[0], Role.LOOK), *dressed(line[1:]))
