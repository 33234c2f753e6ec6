"""Steps 4 and 8: whether an answer that looks like a success keeps what the operation declares.

What can't be checked is not a success. The identity of a new object is read from the answer alone.
"""

from dataclasses import replace

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.contract.wire import JsonValue
from broker.core.classify.case import Case, after, malformed
from broker.core.classify.declared import is_declared_success
from broker.core.classify.delays import retry_after, told_s
from broker.core.classify.reading import is_json, is_xml
from broker.core.outcome import Verdict
from broker.core.paging import argument_at
from broker.core.policy.declarations import Async, ResponseSchema
from broker.core.policy.places import at
from broker.core.policy.schemas import compiled_schema
from broker.core.predicate import AnswerView, holds

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
    if declared is None:
        return False
    wants = (declared.success_when, declared.identity, declared.response_schema, declared.batch, declared.end_marker)
    if not declared.errors and declared.asynchronous is None and not any(want is not None for want in wants):
        return False
    return media is None or is_json(media) or is_xml(media) or media.startswith("text/")


def judge_success(case: Case) -> Verdict:
    """Step 8, for a status that nothing before has settled."""
    slow = None if case.declared is None else case.declared.asynchronous
    if slow is not None and slow.failed_when is not None and holds(slow.failed_when, case.view) is True:
        return _failed_later(case)
    if _is_under_way(case, slow):
        return _accepted(case, slow)
    if not is_declared_success(case) and not _is_unchanged_read(case):
        return malformed(case, "schema", "The answer is not one that the operation declares as a success.")
    broken = _broken_promise(case)
    if broken is not None:
        code, message = broken
        verdict = malformed(case, code, message)
        return verdict if _is_about_what_was_asked(case) else replace(verdict, remote_effect=case.unless_read)
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


def _is_under_way(case: Case, slow: Async | None) -> bool:
    """Whether an answer that looks good says that the work is not finished."""
    if slow is not None and slow.done_when is not None and 200 <= case.status < 300:
        return holds(slow.done_when, case.view) is not True
    return case.status == _ACCEPTED and (slow is not None or not case.expects_status)


def _failed_later(case: Case) -> Verdict:
    return Verdict(
        category=Category.CONFIRMED_FAILURE,
        code="declared",
        retry=case.settle if case.is_write else Retry.NEVER,
        remote_effect=case.unless_read,
        message="The upstream took the work on and says that it failed."
        + (" A part of it may have been done." if case.is_write else ""),
    )


def _accepted(case: Case, slow: Async | None) -> Verdict:
    delays = () if slow is None else slow.delay
    waits = [wait for delay in delays if (wait := told_s(case.view, delay, now_ms=case.now_ms))]
    wait = waits[0] if waits else retry_after(case.view, now_ms=case.now_ms)
    retry, wait_s = after(case, wait or (POLL_AFTER_S if slow is None else slow.default_s))
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
    promises_body = (
        declared.body_required
        or declared.response_schema is not None
        or declared.identity is not None
        or any(_names_json(media) for media in declared.media)
    )
    if not case.reading.has_body:
        return ("empty", "The answer lacks the body that the operation promises.") if promises_body else None
    fits = any(_fits(case.reading.media, media) for media in declared.media)
    if declared.media and not fits and not (declared.lenient_media and case.reading.has_json):
        return "media_type", "The answer is of another media type than the operation declares."
    if declared.end_marker is not None and not (case.reading.text or "").rstrip().endswith(declared.end_marker):
        return "truncated", "The answer lacks the mark with which a whole one ends."
    if declared.response_schema is not None and not _keeps_schema(case, declared.response_schema):
        return "schema", "The answer is not of the shape that the operation declares."
    if declared.identity is not None and identity_of(case) is None:
        return "identity", "The answer lacks the identity that the operation declares, or gives one of another type."
    if not _is_about_what_was_asked(case):
        return "identity", "The answer is about something else than what was asked for."
    return None


def _keeps_schema(case: Case, schema: ResponseSchema) -> bool:
    """What is too large to be looked at keeps nothing."""
    is_bounded = isinstance(case.view, AnswerView) and case.view.is_bounded
    if not is_bounded or not case.reading.has_json:
        return False
    return compiled_schema(schema.text).is_valid(case.reading.json)


def _is_about_what_was_asked(case: Case) -> bool:
    identity = None if case.declared is None else case.declared.identity
    if identity is None or identity.must_equal is None:
        return True
    asked = argument_at(case.frozen.args, identity.must_equal)
    return asked is None or str(asked) == str(identity_of(case))


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
    if declared == "xml":
        return is_xml(media)
    if declared.startswith("+"):
        return media.endswith(declared)
    if declared.endswith("/*"):
        return media.startswith(declared[:-1])
    return media == declared.lower()


def _success_message(case: Case) -> str:
    if _is_unchanged_read(case):
        return "The upstream says that nothing has changed since the version that was named."
    return "The change was made." if case.is_write else "The upstream answered."
