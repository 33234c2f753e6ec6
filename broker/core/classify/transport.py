"""Step 2: how far the request got, and whether the answer's framing held. Phases decide, not the kind of exception.

Before the first byte left, nothing was sent and nothing happened. After it, only an answer settles a write.
"""

from broker.contract.reasons import Category, Retry
from broker.core.classify.case import Case, malformed, outcome_unknown, refused
from broker.core.outcome import Fault, Phase, Verdict

_UNSENT_PHASES = frozenset({Phase.BUILT, Phase.APPROVED, Phase.CONNECTING, Phase.CONNECTED})
_SLOW = frozenset({Fault.CONNECT_TIMEOUT, Fault.WRITE_TIMEOUT, Fault.FIRST_BYTE_TIMEOUT, Fault.TOTAL_TIMEOUT})
_TRUST = {
    Fault.TLS_UNTRUSTED: (
        "Nothing was sent: the upstream's certificate is not trusted. A human has to look at it. "
        "(An authority of your own stands in the service's policy: tls = { ca = ... })"
    ),
    Fault.TLS_NAME: "Nothing was sent: the upstream's certificate is for another name. A human has to look at it.",
    Fault.TLS_EXPIRED: "Nothing was sent: the upstream's certificate is out of date. A human has to look at it.",
    Fault.ADDRESS_REFUSED: (
        "Nothing was sent: the host leads to an address that may not be dialled. Private and loopback addresses need "
        "a binding that names them; a human has to change that."
    ),
}
_UNREACHED = {
    Fault.DNS_FAILED: "Nothing was sent: the name of the host could not be resolved.",
    Fault.CONNECT_REFUSED: "Nothing was sent: the upstream refused the connection.",
    Fault.CONNECT_TIMEOUT: "Nothing was sent: no connection came about before the deadline.",
    Fault.TLS_FAILED: "Nothing was sent: no TLS connection could be agreed with the upstream.",
    Fault.CONNECT_FAILED: "Nothing was sent: the connection broke before it could be used.",
}
_UNSETTLED = {
    Fault.WRITE_TIMEOUT: "The upstream stopped taking the request before it was handed over in full.",
    Fault.FIRST_BYTE_TIMEOUT: "The request was handed over in full and no answer came before the deadline.",
    Fault.TOTAL_TIMEOUT: "The time for the whole call ran out after the request had begun to leave.",
    Fault.CONNECTION_LOST: "The connection ended after the request had begun to leave and before an answer.",
}
_BROKEN = {
    Fault.FRAMING: ("framing", "The upstream's answer breaks the rules of HTTP and was not used.", Retry.BOUNDED),
    Fault.TRUNCATED: ("truncated", "The upstream's answer ended before it was complete.", Retry.BOUNDED),
    Fault.CONNECTION_LOST: ("truncated", "The upstream's answer ended before it was complete.", Retry.BOUNDED),
    Fault.DECODING: ("decoding", "The upstream's answer could not be unpacked.", Retry.NEVER),
    Fault.TOO_LARGE: ("too_large", "The upstream's answer is larger than this operation's limit.", Retry.NEVER),
}
_HARMLESS_ON_ERRORS = frozenset({Fault.DECODING, Fault.TOO_LARGE})


def judge_transport(case: Case) -> Verdict | None:
    """None where an answer came whole, or an error status whose body alone was unusable."""
    raw = case.raw
    if raw.phase in _UNSENT_PHASES:
        return _not_sent(raw.fault or Fault.INTERNAL)
    if raw.fault is None and raw.status is not None:
        return _out_of_turn(case) if case.answered_early else None
    fault = raw.fault or Fault.INTERNAL
    if fault is Fault.INTERNAL:
        return _internal(case)
    if raw.status is None:
        return _no_answer(case, fault)
    if fault in _SLOW:
        return outcome_unknown(case, "total_timeout", _with_effect(case, _UNSETTLED[Fault.TOTAL_TIMEOUT]))
    if fault in _HARMLESS_ON_ERRORS and raw.status >= 400:
        return None
    return _broken(case, fault)


def _not_sent(fault: Fault) -> Verdict:
    if fault is Fault.INTERNAL:
        return refused(
            Category.BROKER_UNAVAILABLE,
            "internal",
            "Nothing was sent: the broker could not carry out the request. A human has to look at its log.",
            retry=Retry.AFTER_HUMAN,
        )
    if fault in _TRUST:
        return refused(Category.LOCAL_FAILURE, fault.value, _TRUST[fault], retry=Retry.AFTER_HUMAN)
    met = Fault.CONNECT_TIMEOUT if fault in _SLOW else fault
    known = met if met in _UNREACHED else Fault.CONNECT_FAILED
    return refused(Category.LOCAL_FAILURE, known.value, _UNREACHED[known], retry=Retry.BOUNDED)


def _no_answer(case: Case, fault: Fault) -> Verdict:
    if fault is Fault.FRAMING:
        return _broken(case, fault)
    known = fault if fault in _UNSETTLED else Fault.CONNECTION_LOST
    return outcome_unknown(case, known.value, _with_effect(case, _UNSETTLED[known]))


def _broken(case: Case, fault: Fault) -> Verdict:
    code, message, retry = _BROKEN.get(fault, _BROKEN[Fault.FRAMING])
    return malformed(case, code, _with_effect(case, message), read_retry=retry)


def _out_of_turn(case: Case) -> Verdict | None:
    """An answer to a request that was not handed over in full. A rejection stands; anything else proves nothing."""
    if case.status == 408 and case.is_write:
        message = "A time-out for an idle connection crossed the request; it answers nothing. The change may be made."
        return outcome_unknown(case, "connection_lost", message)
    if case.status < 300:
        message = "The upstream reported success before it had the whole request, so nothing is proven."
        return malformed(case, "framing", _with_effect(case, message), read_retry=Retry.BOUNDED)
    return None


def _internal(case: Case) -> Verdict:
    return Verdict(
        category=Category.BROKER_UNAVAILABLE,
        code="internal",
        retry=case.settle if case.is_write else Retry.AFTER_HUMAN,
        remote_effect=case.unless_read,
        message=_with_effect(case, "The broker failed after the request had begun to leave."),
    )


def _with_effect(case: Case, message: str) -> str:
    return f"{message} The change may have been made." if case.is_write else message
