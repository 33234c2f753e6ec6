"""The `expect` table of a case. Words of closed sets are checked against the contract, so that none is misspelled."""

from broker.contract.reasons import CODES, Category, IncompleteCode, RemoteEffect, Retry, WarningCode
from broker.matrix.cases import Complete, Expect, Prompts, Remote
from broker.matrix.reading import Table

EXPECT = (
    "category", "retry", "retry_after_s", "remote_effect", "code", "status", "completeness", "warnings",
    "secret_in_result", "remote", "events", "prompts",
)  # fmt: skip
COMPLETE = ("complete", "truncated", "returned", "reasons", "by", "next_cursor")
REMOTE = ("received", "committed", "keys", "unknown")
PROMPTS = ("number", "gates", "scopes")


def expectation(table: Table) -> Expect:
    category = table.word("category", list(Category))
    codes = CODES[Category(category)] if category else frozenset()
    prompts = table.table("prompts", PROMPTS)
    return Expect(
        category=category,
        retry=table.word("retry", list(Retry)),
        code=table.word("code", codes) or None,
        retry_after_s=table.whole("retry_after_s") if table.has("retry_after_s") else None,
        remote_effect=table.word("remote_effect", list(RemoteEffect)) or None,
        status=table.whole("status") if table.has("status") else None,
        completeness=_complete(table),
        warnings=_words(table, "warnings", list(WarningCode)),
        secret_in_result=table.flag("secret_in_result"),
        remote=_remote(table),
        events=table.texts("events") or (),
        prompts=None
        if prompts is None
        else Prompts(
            number=prompts.whole("number"),
            gates=_words(prompts, "gates", ["session", "call"]),
            scopes=_words(prompts, "scopes", ["once", "session"]),
        ),
    )


def _complete(table: Table) -> Complete | None:
    """An explicit null says that there must be none."""
    if "completeness" not in table.values:
        return None
    told = table.table("completeness", COMPLETE)
    if told is None:
        return Complete(is_null=True)
    return Complete(
        complete=told.flag("complete") if told.has("complete") else None,
        truncated=told.flag("truncated") if told.has("truncated") else None,
        returned=told.whole("returned") if told.has("returned") else None,
        reasons=_words(told, "reasons", list(IncompleteCode)),
        by=_words(told, "by", ["broker", "provider"]),
        next_cursor=told.text("next_cursor") or None,
    )


def _remote(table: Table) -> Remote:
    told = table.table("remote", REMOTE)
    if told is None:
        return Remote()
    counts = {key: told.whole(key) if told.has(key) else None for key in ("received", "committed", "keys")}
    return Remote(**counts, unknown=told.text("unknown") or None)


def _words(table: Table, key: str, words: list[str]) -> tuple[str, ...] | None:
    found = table.texts(key)
    for place, word in enumerate(found or ()):
        if word not in words:
            table.reading.fault((*table.at(key), place), f"{word!r} is none of {key}", ", ".join(words))
    return found
