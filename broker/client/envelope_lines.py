"""An envelope as text: what it means first (category, retry, effect, what is missing), then the answer itself.

One text for all faces, so that none drops or flattens what a result says of itself. Everything foreign is neutralised,
JSON by its own escapes, so that it stays the same document. Decides nothing.
"""

from broker.contract.neutralise import visible, visible_json

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.contract.wire import JsonValue

_SIGNS = {"success": "+", "partial": "~"}
_UNKNOWN = frozenset({"outcome_unknown", "reconcile_required"})


def lines(envelope: "Mapping[str, JsonValue]", *, terminal: bool) -> list[str]:
    """The text form. On a terminal text bodies are neutralised as well; a pipe gets them as they came."""
    out = [head(envelope)]
    out += missing(envelope)
    out.append(_shown(envelope.get("message")))
    out += [
        f"! {_shown(warning.get('code'))}: {_shown(warning.get('message'))}" for warning in parts(envelope, "warnings")
    ]
    command = part(envelope, "next").get("command")
    if command:
        out.append(f"next: {_shown(command)}")
    if envelope.get("correlation_id"):
        out.append(f"id: {_shown(envelope['correlation_id'])}")
    previous = envelope.get("previous_correlation_id")
    if previous:
        out.append(f"about: {_shown(previous)}")
    if envelope.get("diagnostics_ref"):
        out.append(f"details, for a human: doorward diagnostics show {_shown(envelope['diagnostics_ref'])}")
    answer = part(envelope, "http")
    if answer:
        out += _answer(answer, terminal=terminal)
    ssh = part(envelope, "ssh")
    if ssh:
        out += _ended(ssh)
        for name, octets in streams(envelope):
            text = octets.decode("utf-8", "backslashreplace")
            out += [f"{name}:", visible(text, multiline=True) if terminal else text]
    return out


def streams(envelope: "Mapping[str, JsonValue]") -> "list[tuple[str, bytes]]":
    """What a command wrote, as far as it is in the envelope and not empty."""
    ssh, found = part(envelope, "ssh"), []
    for name in ("stdout", "stderr"):
        octets = str(ssh.get(name, "")).encode("utf-8", "surrogatepass")
        if f"{name}_b64" in ssh:
            from base64 import b64decode  # noqa: PLC0415 - only for what is no text

            octets = b64decode(str(ssh[f"{name}_b64"]))
        if octets:
            found.append((name, octets))
    return found


def _ended(ssh: "Mapping[str, JsonValue]") -> list[str]:
    how = f"status {_shown(ssh['exit_status'])}" if ssh.get("exit_status") is not None else "no status"
    if ssh.get("exit_signal"):
        how = f"signal {_shown(ssh['exit_signal'])}"
    moved = part(ssh, "transfer")
    if moved:  # a file has no status; its digest is what can be compared
        seen = [f"{_shown(moved['size'])} bytes"] if moved.get("size") is not None else []
        seen += [f"sha256 {_shown(moved['sha256'])}"] if moved.get("sha256") else []
        return [f"SSH file: {', '.join(seen)}"] if seen else []
    marker = f", marker {_shown(ssh['marker'])}" if ssh.get("marker") else ""
    return [f"SSH {how}{marker}, {_shown(ssh.get('stdout_bytes'))} bytes out, {_shown(ssh.get('stderr_bytes'))} err"]


def head(envelope: "Mapping[str, JsonValue]") -> str:
    """One line: sign, category, code, completeness, retry and remote effect."""
    category = str(envelope.get("category"))
    sign = "?" if category in _UNKNOWN else _SIGNS.get(category, "x")
    delay = envelope.get("retry_after_s")
    retry = f"retry: {_shown(envelope.get('retry'))}" + ("" if delay is None else f" ({_shown(delay)} s)")
    complete = part(envelope, "completeness").get("complete")
    whole = "" if complete is None else ", complete" if complete else ", INCOMPLETE"
    effect = f"remote effect: {_shown(envelope.get('remote_effect'))}"
    return f"{sign} {visible(category)} ({_shown(envelope.get('code'))}){whole}; {retry}; {effect}"


def missing(envelope: "Mapping[str, JsonValue]") -> list[str]:
    """Why an answer is not known to be whole, and how much of what was seen; nothing where it is."""
    completeness, out = part(envelope, "completeness"), []
    for reason in parts(completeness, "incomplete_reasons"):
        by = f"by the {_shown(reason.get('by'))}"
        if reason.get("limit") is not None:
            by += f", limit {_shown(reason['limit'])} {_shown(reason.get('unit') or '')}".rstrip()
        out.append(f"! {_shown(reason.get('code'))}: {_shown(reason.get('message'))} ({by})")
    if completeness and not completeness.get("complete"):
        total = completeness.get("total")
        whole = "an unknown number" if total is None else _shown(total)
        seen = completeness.get("returned")
        out.append(f"! seen: {'an unknown number' if seen is None else _shown(seen)} of {whole}")
    return out


def _answer(answer: "Mapping[str, JsonValue]", *, terminal: bool) -> list[str]:
    media = f" {_shown(answer['media_type'])}" if answer.get("media_type") else ""
    out = [f"HTTP {_shown(answer.get('status'))}{media}, {_shown(answer.get('body_bytes'))} bytes", ""]
    if "body_json" in answer:
        out.append(visible_json(_indented(answer["body_json"])))
    elif "body" in answer:
        text = str(answer["body"])
        out.append(visible(text, multiline=True) if terminal else text)
    elif "body_b64" in answer:
        out.append(_shown(answer["body_b64"]))
    else:
        out[-1:] = []
    return out


def _shown(value: "JsonValue") -> str:
    return visible(value if isinstance(value, str) else str(value))


def _indented(value: "JsonValue") -> str:
    import json  # noqa: PLC0415 - loaded by now, and only text output needs it here

    return json.dumps(value, ensure_ascii=False, indent=2)


def part(value: "Mapping[str, JsonValue]", name: str) -> "Mapping[str, JsonValue]":
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def parts(value: "Mapping[str, JsonValue]", name: str) -> "list[Mapping[str, JsonValue]]":
    found = value.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
