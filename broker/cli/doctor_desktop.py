"""Checks of the desktop, as a running daemon tells of it: notices of waiting cards, and locks with the screen.

Nothing here is a fault: without a desktop everything else works, and cards wait on the approval screen.
"""

from collections.abc import Iterator

from broker.cli.doctor_finding import Finding, fine, warning
from broker.cli.output import number, text
from broker.client.envelope_lines import part
from broker.contract.wire import JsonObject


def desktop(status: JsonObject) -> Iterator[Finding]:
    told = part(status, "desktop")
    if not told:
        return
    yield _notices(text(told, "notices"))
    yield _locks(text(told, "login_session"), delays=told.get("delays_sleep") is True)
    forged = number(told, "forged_signals")
    if forged:
        yield warning(
            "desktop",
            f"{forged} signals came from programs that do not run the service they speak for; they were ignored",
            "look which program on your session's bus does that",
        )


def _notices(state: str) -> Finding:
    match state:
        case "ready":
            return fine("notices", "a waiting card is shown as a notice; it can be denied there, and never approved")
        case "off":
            return fine("notices", "not wanted (--no-notices): cards are shown by doorward ui alone")
        case "no_bus":
            return fine("notices", "the daemon has no session bus: cards are shown by doorward ui alone")
        case "silent":
            return warning(
                "notices",
                "the notification service of the desktop does not answer: no notices of waiting cards",
                "start that service anew; until then keep doorward ui open",
            )
        case _:
            return warning(
                "notices",
                "no notification service runs in this session: no notices of waiting cards",
                "install or start one (dunst, xfce4-notifyd, the desktop's own), or keep doorward ui open",
            )


def _locks(state: str, *, delays: bool) -> Finding:
    match state:
        case "ready" | "no_session":
            first = "before a sleep, which waits for it" if delays else "at a sleep, which may come first"
            screen = "" if state == "no_session" else ", and when the screen locks"
            return fine("desktop lock", f"the vault locks {first}{screen}")
        case "off":
            return fine("desktop lock", "not wanted (--no-desktop-lock): the vault stays open at sleep and screen lock")
        case _:
            return fine("desktop lock", "no logind here: the vault locks by hand, by idle time and at the daemon's end")
