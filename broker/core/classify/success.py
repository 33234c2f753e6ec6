"""Steps 4 and 8: whether an answer that looks like a success keeps what the operation declares.

What can't be checked is not a success. The identity of a new object is read from the answer alone.
"""

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.contract.wire import JsonValue
from broker.core.classify.case import Case, after, malformed
from broker.core.classify.declared import is_declared_success
from broker.core.classify.delays import retry_after
from broker.core.classify.reading import is_json
from broker.core.outcome import Verdict
from broker.core.policy.places import at

POLL_AFTER_S = 10
_ACCEPTED = 202
_NOT_MODIFIED = 304


def judge_decoding(case: Case) -> Verdict | None:
    """Step 4. The body of an error status may be anything: the status speaks for itself."""
    if case.raw.is_body_gone and case.raw.body_complete and _has_to_be_looked_into(case):
        message = "The answer was handed on, and is larger than what the operation's declarations can be checked on."
        return malformed(case, "too_large", message)
    if case.reading.broken is None or case.status >= 400:
        return None
    return malformed(case, "decoding", f"The upstream's JSON can't be relied on: {case.reading.broken}.")


def _has_to_be_looked_into(case: Case) -> bool:
    """Whether the operation declares something of the body, and the body is of a kind that it can be found in."""
    declared, media = case.declared, case.reading.media
    promises = declared is not None and (declared.success_when or declared.identity or declared.errors)
    return bool(promises) and (media is None or is_json(media) or media.startswith("text/"))


def judge_success(case: Case) -> Verdict:
    """Step 8, for a status that nothing before has settled."""
    if case.status == _ACCEPTED and not case.expects_status:
        return _accepted(case)
    if not is_declared_success(case) and not _is_unchanged_read(case):
        return malformed(case, "schema", "The answer is not one that the operation declares as a success.")
    broken = _broken_promise(case)
    if broken is not None:
        code, message = broken
        return malformed(case, code, message)
    return Verdict(
        category=Category.SUCCESS,
        code="ok",
        retry=Retry.NEVER,
        remote_effect=RemoteEffect.APPLIED if case.is_write else RemoteEffect.NONE,
        message=_success_message(case),
    )


def identity_of(case: Case) -> JsonValue:
    """The declared id of the answer; None where none is declared or it is not what was declared."""
    identity = None if case.declared is None else case.declared.identity
    if identity is None:
        return None
    value = at(case.view, identity.path)
    if identity.type == "integer":
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    return value if isinstance(value, str) and value else None


def _accepted(case: Case) -> Verdict:
    retry, wait_s = after(case, retry_after(case.view, now_ms=case.now_ms) or POLL_AFTER_S)
    return Verdict(
        category=Category.PARTIAL,
        code="accepted",
        retry=retry,
        retry_after_s=wait_s,
        remote_effect=case.unless_read,
        message="The upstream accepted the request and has not finished it."
        + (" Look at what became of it; do not send it again." if case.is_write else ""),
    )


def _is_unchanged_read(case: Case) -> bool:
    return case.status == _NOT_MODIFIED and not case.is_write


def _broken_promise(case: Case) -> tuple[str, str] | None:
    declared = case.declared
    if declared is None or case.frozen.method == "HEAD" or _is_unchanged_read(case):
        return None
    promises_body = declared.identity is not None or any(_names_json(media) for media in declared.media)
    if not case.reading.has_body:
        return ("empty", "The answer lacks the body that the operation promises.") if promises_body else None
    if declared.media and not any(_fits(case.reading.media, media) for media in declared.media):
        return "media_type", "The answer is of another media type than the operation declares."
    if declared.identity is not None and identity_of(case) is None:
        return "identity", "The answer lacks the identity that the operation declares, or gives one of another type."
    return None


def _names_json(declared: str) -> bool:
    return declared in {"json", "+json"} or is_json(declared)


def _fits(media: str | None, declared: str) -> bool:
    """`json` stands for every JSON type, `text` for every text type, `+suffix` for a structured suffix."""
    if media is None:
        return False
    if declared == "json":
        return is_json(media)
    if declared == "text":
        return media.startswith("text/")
    if declared.startswith("+"):
        return media.endswith(declared)
    if declared.endswith("/*"):
        return media.startswith(declared[:-1])
    return media == declared.lower()


def _success_message(case: Case) -> str:
    if _is_unchanged_read(case):
        return "The upstream says that nothing has changed since the version that was named."
    return "The change was made." if case.is_write else "The upstream answered."
