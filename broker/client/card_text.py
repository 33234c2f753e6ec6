"""A card as lines of text: everything that is on it, nothing folded, nothing cut, in the order of the screens.

Foreign text is neutralised by the words; long sentences are wrapped between words, a single long word stays whole.
What is wrapped goes on two columns further in, and body lines stand behind a bar: no foreign word begins a line where
ours do. Pure but for the local time of day. Asks nothing and decides nothing.
"""

from collections.abc import Iterable

from broker.client import before_words, evidence_words, ssh_words
from broker.client import card_words as words
from broker.client.card import Card
from broker.client.card_ssh import Ssh
from broker.contract.neutralise import cells, visible

LABEL_COLUMNS = 9
NARROWEST = 40


def card_lines(
    card: Card, *, card_digest: str, state: str, expires_at_ms: int, joined: int, now_ms: int, width: int
) -> list[str]:
    """The whole card for a terminal of so many columns."""
    width = max(width, NARROWEST)
    out = _head(card, state, expires_at_ms, now_ms, width)
    out += _wrapped("  ", "    ", words.target(card, whole_url=True), width)
    for label, sentences in _parts(card, card_digest, joined, now_ms):
        out += _part(label, sentences, width)
    out += _answers(card, joined, width)
    return out


def _head(card: Card, state: str, expires_at_ms: int, now_ms: int, width: int) -> list[str]:
    summary = words.summary(card)
    when = f"{visible(state)}, expires {words.clock_time(expires_at_ms)} (in {words.countdown(expires_at_ms - now_ms)})"
    if state != "pending":
        when = f"{visible(state)}: can no longer be answered"
    gap = width - cells(summary) - cells(when)
    if gap >= 2:
        return [summary + " " * gap + when]
    return [*_wrapped("", "       ", summary, width), f"       {when}"]


def _parts(card: Card, card_digest: str, joined: int, now_ms: int) -> Iterable[tuple[str, list[str]]]:
    """Trouble first, then who, why, with what, and the bytes."""
    if card.ssh is not None:
        yield from _ssh_parts(card.ssh)
    for attempt in card.doubts:
        yield "In doubt", words.earlier(attempt, now_ms)
    yield "Evidence", evidence_words.sentences(card.evidence, now_ms)
    if card.evidence.has_gap:
        yield "Targets", evidence_words.targets(card.evidence)
    yield "Who", _who(card, joined, now_ms)
    yield "Why", [words.why(card), *words.where_ruled(card), f"policy {visible(card.why.policy)}"]
    yield "Uses", [words.uses(card)]
    if card.ssh is not None and ssh_words.leaves(card.ssh):
        yield "Leaves", ssh_words.leaves(card.ssh)
    yield "Body", [words.body(card), *(f"| {line}" for line in words.body_lines(card))]
    if card.before is not None:
        yield "Before", before_words.sentences(card, now_ms)
    yield "Exact", _exact(card, card_digest)


def _ssh_parts(ssh: Ssh) -> Iterable[tuple[str, list[str]]]:
    if ssh_words.was_cut(ssh):
        yield "Command", [f"| {line}" for line in ssh_words.command_lines(ssh)]
    key = ssh_words.host_key(ssh)
    if ssh.is_first_contact:
        key += [ssh_words.fingerprint(ssh), *ssh_words.after_fingerprint()]
    yield "Host key", key


def _who(card: Card, joined: int, now_ms: int) -> list[str]:
    return [
        words.who(card, now_ms),
        words.span(card),
        *words.doubts_about_who(card),
        *words.naming(card),
        *words.joined(joined),
        words.chain(card),
        *words.place(card),
        *words.says(card),
    ]


def _exact(card: Card, card_digest: str) -> list[str]:
    headers = [f"header {visible(name)}: {visible(value)}" for name, value in card.headers]
    digests = [f"request {visible(card.request_digest)}", f"card {visible(card_digest)}"]
    return [*digests, *before_words.repeat_key(card), *headers]


def _answers(card: Card, joined: int, width: int) -> list[str]:
    once = words.yes_once(card, joined_calls=joined)
    if card.typed_word is not None:
        once = f"{once.removesuffix('.')}. Asks for the word {visible(card.typed_word)}"
    name = visible(card.approval_id)
    scope = f" | approve {name} --scope session" if card.yes.session.offered else ""
    others = "".join(f" | {choice} {name}" for choice, _ in _ways(card))
    confirm = "" if card.typed_word is None else f" --confirm {visible(card.typed_word)}"
    return [
        "A yes covers",
        *_wrapped("  approve  ", " " * 13, once, width),
        *_wrapped("  session  ", " " * 13, words.yes_session(card), width),
        *(line for choice, what in _ways(card) for line in _wrapped(f"  {choice:<9}", " " * 13, what, width)),
        *_wrapped("  deny     ", " " * 13, before_words.denial(card), width),
        f"Answer   doorward approvals deny {name} --reason TEXT | approve {name}{confirm}{scope}{others}",
    ]


def _ways(card: Card) -> list[tuple[str, str]]:
    """What may be chosen instead of a yes, and what it covers."""
    ways = (("collect", evidence_words.collect(card.evidence)), ("limit", evidence_words.limit(card.evidence)))
    first = (("read-back", before_words.read_back(card)),)
    return [(choice, what) for choice, what in (*first, *ways) if what is not None]


def _part(label: str, sentences: list[str], width: int) -> list[str]:
    out: list[str] = []
    for sentence in sentences:
        first = f"{label:<{LABEL_COLUMNS}}" if not out else " " * LABEL_COLUMNS
        out += _wrapped(first, " " * (LABEL_COLUMNS + 2), sentence, width)
    return out


def _wrapped(first: str, rest: str, sentence: str, width: int) -> list[str]:
    """Broken between words only: a word longer than a line stays whole, where it came."""
    lines: list[str] = []
    line, filled = first, False
    for word in sentence.split(" "):
        room = width - len(rest)
        if filled and cells(line) + 1 + cells(word) > width and cells(word) <= room:
            lines.append(line)
            line, filled = rest, False
        line += f" {word}" if filled else word
        filled = True
    lines.append(line)
    return [line.rstrip() for line in lines]
