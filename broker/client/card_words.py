"""The sentences of a card, spelled once for the command line and the terminal interface.

Each function returns finished text: foreign parts neutralised, words of others in quotes, signs in front
(`+` proven, `!` look here, `?` not known). Lays out nothing: columns, folding and colours belong to the surfaces.
"""

import time

from broker.client import ssh_words
from broker.client.card import Body, Card, EarlierAttempt, Link
from broker.contract.neutralise import cells, hidden_count, quoted, visible

LONGEST_COMMAND = 1 << 20
_UNITS = ((86_400_000, 2, "d"), (3_600_000, 1, "h"), (60_000, 1, "min"))
_MEDIA = {"application/json": "JSON", "text/plain": "text", "application/x-www-form-urlencoded": "form"}


def duration(ms: int) -> str:
    """`12 s`, `38 min`, `2 h`, `3 d`; the past as 0 s."""
    for unit_ms, least, name in _UNITS:
        if ms >= unit_ms * least:
            return f"{ms // unit_ms} {name}"
    return f"{max(ms, 0) // 1000} s"


def age(since_ms: int, now_ms: int) -> str:
    return f"{duration(now_ms - since_ms)} old"


def countdown(ms: int) -> str:
    """`1:42`, never negative."""
    seconds = max(ms, 0) // 1000
    return f"{seconds // 60}:{seconds % 60:02}"


def clock_time(at_ms: int) -> str:
    """Time of day here."""
    return time.strftime("%H:%M:%S", time.localtime(at_ms / 1000))


def lifetime(seconds: int) -> str:
    """A limit as it was set: `90 s`, `60 min`, `8 h`; exact, never rounded."""
    if seconds >= 7200 and seconds % 3600 == 0:
        return f"{seconds // 3600} h"
    if seconds >= 120 and seconds % 60 == 0:
        return f"{seconds // 60} min"
    return f"{seconds} s"


def counted(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def summary(card: Card, *, columns: int | None = None) -> str:
    """`READ   github issues.list, acme/site`. Longer than `columns`: cut in the middle by an ellipsis."""
    what = card.summary
    if card.ssh is not None:
        limit = ssh_words.COMMAND_COLUMNS if columns is not None else LONGEST_COMMAND
        return ssh_words.summary(card.ssh, what.effect, columns=limit)
    targets = f", {what.targets} targets" if what.targets > 1 else ""
    identifies = f", {visible(what.identifies)}" if what.identifies else ""
    line = f"{visible(what.effect):<6} {visible(what.service)} {visible(what.operation)}{identifies}{targets}"
    return line if columns is None else middle_cut(line, columns)


def middle_cut(line: str, columns: int) -> str:
    """At most so many columns; what is left out in the middle is marked by an ellipsis."""
    if cells(line) <= columns:
        return line
    tail_columns = columns // 3
    tail = line[-tail_columns:] if tail_columns else ""
    while tail and (cells(tail) > tail_columns or cells(tail[0]) == 0):
        tail = tail[1:]
    return f"{_taken(line, columns - 1 - cells(tail))}…{tail}"


def target(card: Card, *, whole_url: bool) -> str:
    """Method and URL as sent. Without `whole_url` a leading https:// is left out; http:// is always written."""
    if card.ssh is not None:
        return ssh_words.target(card.ssh)
    url = card.target.url
    if not whole_url:
        url = url.removeprefix("https://")
    mark = "! " if card.target.plain_http else ""
    return f"{mark}{visible(card.target.method)} {visible(url)}"


def summary_was_cut(card: Card, columns: int) -> bool:
    if card.ssh is not None:
        return ssh_words.was_cut(card.ssh)
    return cells(summary(card)) > columns


def earlier(attempt: EarlierAttempt, now_ms: int) -> list[str]:
    """A change in doubt that this card would repeat."""
    by = "this session" if attempt.same_session else f"another session of {visible(attempt.agent)}"
    return [
        f"? This change was sent {duration(now_ms - attempt.sent_at_ms)} ago, end unknown.",
        f"{clock_time(attempt.sent_at_ms)} {visible(attempt.summary)}",
        f"by {by}, {visible(attempt.correlation_id)}",
        "It may have happened. A yes may do it TWICE.",
    ]


def who(card: Card, now_ms: int) -> str:
    """`claude-code, 38 min old, 14 calls, 0 denied`."""
    by = card.who
    name = visible(by.agent) if by.identified else "! unidentified"
    return f"{name}, {age(by.opened_at_ms, now_ms)}, {counted(by.calls, 'call')}, {by.denied} denied"


def span(card: Card) -> str:
    """What the session is, and with it what a session's grant would reach."""
    pid = card.who.pid
    match card.who.span:
        case "tree":
            return f"session: pid {pid} and what it starts"
        case "process":
            return f"session: pid {pid} alone"
        case "connection":
            return f"session: this one connection of pid {pid}; it ends with it"
        case "container":
            return f"session: all that reaches the listener of container {visible(card.who.agent)}, pid {pid}"
        case other:
            return f"session: pid {pid}, {visible(other)}"


def doubts_about_who(card: Card) -> list[str]:
    """What speaks against taking the name at face value."""
    lines: list[str] = []
    if card.who.container:
        lines.append("! runs in a container")
    if card.who.interpreter:
        lines.append("! an interpreter or shell: its name says little of what it runs")
    return lines


def naming(card: Card) -> list[str]:
    """How a human gives a name to an agent that no policy names; its executable is quoted, not trusted."""
    by = card.who
    if by.identified:
        return []
    if by.naming is None:
        return ["to name it: doorward policy add agents, or an entry of your own in [agents]"]
    argv = "" if by.naming.argv is None else f", argv = {quoted(by.naming.argv)}"
    return [f"to name it, in [agents] of a policy file: my-agent = {{ exe = {quoted(by.naming.exe)}{argv} }}"]


def says(card: Card) -> list[str]:
    """The agent's own words, and a warning where some of them are hidden characters."""
    words = card.who.says
    if words is None:
        return []
    lines = [f"says: {quoted(words)}"]
    hidden = hidden_count(words)
    if hidden:
        lines.append(f"! hidden characters in its words ({hidden})")
    return lines


def chain(card: Card) -> str:
    """`node 4711 < zsh 4102 (never a session)`, nearest first."""
    if not card.who.chain:
        return "process chain: not known"
    return " < ".join(_link(link) for link in card.who.chain)


def place(card: Card) -> list[str]:
    """Executable, directory and label, each where known."""
    by = card.who
    lines = [f"program {quoted(by.exe)}" if by.exe is not None else "program: not known"]
    if by.cwd is not None:
        lines.append(f"works in {quoted(by.cwd)}")
    if by.label is not None:
        lines.append(f"label says: {quoted(by.label)}")
    return lines


def joined(count: int) -> list[str]:
    """Several identical requests wait behind one card."""
    return [f"asked {count} times the same; one answer serves all"] if count > 1 else []


def why(card: Card) -> str:
    """`rule github-read asks once in each session: Reading issues and code`."""
    asks = {"session": "asks once in each session", "per_call": "asks each time"}.get(card.why.gate)
    sentence = f"rule {visible(card.why.rule)} {asks or 'asks'}"
    return f"{sentence}: {visible(card.why.reason)}" if card.why.reason else sentence


def where_ruled(card: Card) -> list[str]:
    """File and line of the rule, the policy, and other rules that matched."""
    ruled = card.why
    lines = []
    if ruled.file is not None:
        line = "" if ruled.line is None else f":{ruled.line}"
        folder = "" if "/" in ruled.file else "policies/"
        lines.append(f"in {folder}{visible(ruled.file)}{line}")
    others = [visible(rule) for rule in ruled.rules if rule != ruled.rule]
    if others:
        lines.append(f"also matched: {', '.join(others)}")
    return lines


def uses(card: Card) -> str:
    if card.ssh is not None:
        return ssh_words.uses(card.uses.credential, card.uses.version)
    if card.uses.credential is None:
        return "no credential"
    version = "" if card.uses.version is None else f", version {card.uses.version}"
    return f"credential {visible(card.uses.credential)} (its value stays inside){version}"


def body(card: Card) -> str:
    """How much of the body can be seen, and of what kind it is."""
    part = card.body
    if part.size_bytes == 0:
        return "none"
    kind = "" if part.media is None else f", {visible(_MEDIA.get(part.media, part.media))}"
    if part.text is None:
        return f"{counted(part.size_bytes, 'byte')}{kind}, not text: sha256 {_sha256(part)}"
    shown = len(part.text.encode("utf-8", "surrogatepass"))
    hidden = hidden_count(part.text)
    note = "no hidden characters" if hidden == 0 else f"! hidden characters ({hidden})"
    cut = f", ! the rest is not shown: sha256 {_sha256(part)}" if part.cut else ""
    return f"{shown} of {counted(part.size_bytes, 'byte')}{kind}, {note}{cut}"


def body_lines(card: Card) -> list[str]:
    """The body's text, line by line, neutralised."""
    return [] if not card.body.text else visible(card.body.text, multiline=True).split("\n")


def yes_once(card: Card, *, joined_calls: int = 1) -> str:
    """What approving once covers."""
    sentence = visible(card.yes.once)
    if joined_calls > 1:
        sentence += f" (all {joined_calls} calls get its answer)"
    first_contact = card.ssh is not None and card.ssh.is_first_contact  # its sentence says what can go wrong
    if card.evidence.has_gap and card.summary.effect != "READ":
        return f"{sentence}; no way back"
    if not card.yes.undo and card.summary.effect != "READ" and not first_contact:
        sentence += ". It can not be undone."
    return sentence


def yes_session(card: Card) -> str:
    """What a grant to the session covers, or why none is offered."""
    offer = card.yes.session
    if not offer.offered:
        return f"not offered: {visible(offer.why_not)}" if offer.why_not else "not offered"
    limits = []
    if offer.max_uses is not None:
        limits.append(counted(offer.max_uses, "call"))
    if offer.max_age_s is not None:
        limits.append(lifetime(offer.max_age_s))
    end = "ends with the connection" if card.who.span == "connection" else "ends with the process"
    what = visible(offer.what or "any request under this rule")
    return f"{what}, by this session alone: {' or '.join(limits) or 'no limit set'}, {end}"


def digests(card: Card, card_digest: str, *, whole: bool) -> str:
    spell = visible if whole else short_digest
    return f"request {spell(card.request_digest)}   card {spell(card_digest)}"


def short_digest(digest: str) -> str:
    """`sha256:3f9c21ab`: enough to compare by eye, not a proof."""
    prefix, _, value = digest.partition(":")
    return visible(f"{prefix}:{value[:8]}" if value else digest, limit=24)


def _sha256(part: Body) -> str:
    return visible(part.sha256 or "not known")


def _link(link: Link) -> str:
    name = f"{visible(link.name)} {link.pid}"
    return name if link.anchors else f"{name} (never a session)"


def _taken(text: str, columns: int) -> str:
    end = 0
    while end < len(text) and cells(text[: end + 1]) <= columns:
        end += 1
    return text[:end]
