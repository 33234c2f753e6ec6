"""What is known of a change in doubt, in few words: how far it got, and when, by the records of its trail. Pure.

What is not on record is not said: of the way of a request the log tells its durable steps, not each packet.
"""

from broker.client import card_words as words
from ui.activity_words import REMOTE, phase_words
from ui.paper import Paper
from ui.served import EventRow, Fields

_KNOWN = {
    "first_byte_timeout": "handed over, no answer",
    "write_timeout": "sent in part, no answer",
    "total_timeout": "sent, no answer in time",
    "connection_lost": "sent, line lost",
    "truncated": "answer cut short",
    "framing": "answer not readable",
    "decoding": "answer not readable",
    "too_large": "answer too large to read",
    "unrecorded": "end not recorded",
    "internal": "fault of the broker",
}


def known(code: str, paper: Paper) -> str:
    """How far it got, by the code of its outcome."""
    return _KNOWN.get(code) or paper.foreign(code.replace("_", " "), limit=60) or "nothing"


def steps(trail: tuple[EventRow, ...], paper: Paper) -> list[str]:
    """`asked 14:02:05`, `you approved 14:02:06`, `sending 14:02:06`, `handed over whole, no answer 14:02:37`."""
    out: list[str] = []
    for event in trail:
        fields, at = Fields(event.fields), words.clock_time(event.at_ms)
        match event.name:
            case "action.requested":
                out.append(f"asked {at}")
            case "approval.decided" if fields.text("decision") == "approve":
                out.append(f"you approved {at}")
            case "dispatch.started":
                out.append(f"sending {at}")
            case name if name in REMOTE:
                phase = fields.text("phase")
                got = phase_words(phase, paper)
                end = "answered" if name == "remote.answered" else "no answer"
                out.append(f"{got}, {end} {at}" if got else f"{end} {at}")
            case "operation.in_doubt":
                out.append(f"end not recorded, found {at}")
            case _:
                pass
    return out


def sent_bytes(trail: tuple[EventRow, ...]) -> int | None:
    told = [Fields(event.fields).number_or_none("sent_body_bytes") for event in trail if event.name in REMOTE]
    return told[-1] if told else None


def identified(trail: tuple[EventRow, ...]) -> str:
    """What identifies the target, as it was frozen; foreign."""
    for event in trail:
        if event.name == "policy.decided":
            return Fields(event.fields).text("identifies")
    return ""


def read_back_before(trail: tuple[EventRow, ...]) -> str:
    """Whether a look was taken at it already."""
    looked = [event for event in trail if event.name == "reconcile.started"]
    return f"tried {words.clock_time(looked[-1].at_ms)}" if looked else "not tried yet"
