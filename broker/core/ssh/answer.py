"""The `ssh` part of the envelope, and how its output is spelled: as text where it is UTF-8, else in base64.

`with_output` builds it again around scrubbed bytes by the same rules, so that nothing hides in a spelling.
"""

import base64

from broker.contract.wire import JsonObject, JsonValue
from broker.core.ssh.outcome import MarkerState, SshOutcome

STREAMS = ("stdout", "stderr")


def ssh_answer(seen: SshOutcome, *, with_streams: bool) -> JsonObject:
    """What an agent may read of an attempt; its output only where it is usable."""
    answer: dict[str, JsonValue] = {
        "exit_status": seen.exit_status,
        "exit_signal": seen.exit_signal,
        "stdout_bytes": seen.stdout_bytes,
        "stderr_bytes": seen.stderr_bytes,
        "marker": None if seen.marker is MarkerState.OFF else seen.marker.value,
    }
    if seen.transfer is not None:
        answer["transfer"] = {
            "replaced": seen.transfer.replaced.value,
            "size": seen.transfer.size,
            "sha256": seen.transfer.sha256,
        }
    if with_streams:
        answer |= spelled("stdout", seen.stdout) | spelled("stderr", seen.stderr)
    return answer


def spelled(stream: str, octets: bytes) -> dict[str, JsonValue]:
    """The one key under which a stream stands, with its value."""
    try:
        return {stream: octets.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{stream}_b64": base64.b64encode(octets).decode("ascii")}


def has_stream(answer: JsonObject, stream: str) -> bool:
    return stream in answer or f"{stream}_b64" in answer


def with_stream(answer: JsonObject, stream: str, octets: bytes | None) -> JsonObject:
    """The same answer with other bytes in a stream; None leaves the stream out."""
    rest = {key: value for key, value in answer.items() if key not in {stream, f"{stream}_b64"}}
    return rest if octets is None else rest | spelled(stream, octets)
