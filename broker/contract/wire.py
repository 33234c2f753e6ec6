"""Strict JSON: one parser for everything that arrives, one canonical spelling for everything that is signed.

Parsing refuses duplicate names, NaN and infinities, over-deep and over-large documents, and lone surrogates.
Canonical JSON: sorted keys, no spaces, UTF-8, integers only.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring

TYPE_CHECKING = False  # loading `typing` is a tenth of the thin client's whole time
if TYPE_CHECKING:
    from typing import TypeAlias

JsonValue: "TypeAlias" = "str | int | float | bool | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
JsonObject: "TypeAlias" = Mapping[str, JsonValue]

MAX_DEPTH = 64
MAX_BYTES = 1 << 20

_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)  # the last quote may be missing: no re-scanning
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ALIKE = bytes.maketrans(b"{}", b"[]")
_OPENING = (b"[", b"{")
_BEGINNING = (b",", *_OPENING)  # each value but the first has one before it


class WireError(ValueError):
    """The bytes are not acceptable JSON. The message names the fault and never repeats the input."""


def _no_duplicates(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise WireError("an object names the same key twice")
    return names


def _no_constant(_: str) -> float:
    raise WireError("NaN and infinities are not JSON")


def _finite(spelling: str) -> float:
    number = float(spelling)
    if not math.isfinite(number):
        raise WireError("a number is too large")
    return number


def parse_json(
    raw: bytes,
    *,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
    max_values: int | None = None,
) -> JsonValue:
    """UTF-8 JSON bytes to Python values. Raises WireError.

    Every value costs time wherever the document goes: `max_values` bounds that, where somebody has to wait for it.
    """
    if len(raw) > max_bytes:
        raise WireError(f"more than {max_bytes} bytes")
    if max_values is not None and _holds_more(raw, max_values):
        raise WireError(f"more than {max_values} values")
    if _count(raw, _OPENING) > max_depth and _is_deeper(_STRINGS.sub(b"", raw), max_depth):  # mostly two scans in C
        raise WireError(f"nested deeper than {max_depth}")

    try:
        text = raw.decode("utf-8")
        value: JsonValue = json.loads(  # noqa: TID251 - this is the strict parser that the rule asks for
            text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite
        )
        if "\\u" in text:  # only an escape can spell a lone surrogate once the bytes were valid UTF-8
            json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")
    except UnicodeError:
        raise WireError("not valid UTF-8") from None
    except json.JSONDecodeError as cause:
        raise WireError(f"not JSON: {cause.msg} at character {cause.pos}") from None
    except RecursionError:
        raise WireError(f"nested deeper than {max_depth}") from None
    except WireError:
        raise
    except ValueError:  # an integer beyond Python's conversion limit
        raise WireError("a number is too long") from None
    return value


def parse_object(raw: bytes, *, max_bytes: int = MAX_BYTES, max_values: int | None = None) -> dict[str, JsonValue]:
    """Like parse_json, for a document that has to be an object."""
    value = parse_json(raw, max_bytes=max_bytes, max_values=max_values)
    if not isinstance(value, dict):
        raise WireError("the document is not an object")
    return value


def _count(raw: bytes, characters: tuple[bytes, ...]) -> int:
    return sum(map(raw.count, characters))


def _holds_more(raw: bytes, max_values: int) -> bool:
    """Whether there are more values, counted by what stands before them; most documents are told by scans in C."""
    if raw.count(b'"') - raw.count(b'\\"') > 4 * max_values:  # a name and a string, two quotes each
        return True
    return _count(raw, _BEGINNING) > max_values < _count(_STRINGS.sub(b"", raw), _BEGINNING)


def _is_deeper(bare: bytes, max_depth: int) -> bool:
    """Whether brackets nest deeper, asked before the recursive parser sees them; each round takes the innermost away.

    What never pairs up is no JSON: it is left to the parser, unless there is so much of it that it might recurse.
    """
    brackets = bare.translate(_ALIKE, _NO_BRACKETS)
    for _ in range(max_depth):
        if b"[]" not in brackets:
            break
        brackets = brackets.replace(b"[]", b"")
    return b"[]" in brackets or brackets.count(b"[") > max_depth


def canonical(value: JsonValue) -> bytes:
    """The one spelling that is hashed and signed. Raises WireError on floats and lone surrogates."""
    try:
        if type(value) is str:  # what most values are, and the short way to the same spelling
            return encode_basestring(value).encode("utf-8")
        _refuse_floats(value)
        return _spell(value).encode("utf-8")
    except UnicodeEncodeError:
        raise WireError("a string holds half a surrogate pair") from None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise WireError(f"{type(value).__name__} has no JSON spelling")


_SCALARS = frozenset({str, int, bool, type(None)})  # exactly these need no second look
_spell = json.JSONEncoder(  # made once, for a record is written in every few microseconds
    sort_keys=True,
    separators=(",", ":"),
    ensure_ascii=False,
    check_circular=False,  # what goes in circles has been refused before
    default=_plain,
).encode
_spell_compactly = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain).encode


def _refuse_floats(value: JsonValue) -> None:
    if type(value) in _SCALARS:
        return
    if isinstance(value, float):
        raise WireError("canonical JSON holds integers only")
    if type(value) is dict or isinstance(value, Mapping):
        for key, item in value.items():
            if type(key) is not str and not isinstance(key, str):
                raise WireError("a key is not a string")
            if type(item) not in _SCALARS:
                _refuse_floats(item)
    elif type(value) is list or (isinstance(value, Sequence) and not isinstance(value, str)):
        for item in value:
            if type(item) not in _SCALARS:
                _refuse_floats(item)


def digest(domain: str, value: JsonValue) -> str:
    """`sha256:<hex>` over the domain, a NUL and the canonical bytes."""
    import hashlib  # noqa: PLC0415 - likewise a tenth, and the thin client never needs it

    return "sha256:" + hashlib.sha256(domain.encode() + b"\0" + canonical(value)).hexdigest()


def dump(value: JsonValue) -> bytes:
    """Compact JSON for an answer on the wire (finite floats allowed). Raises WireError."""
    try:
        return _spell_compactly(value).encode("utf-8")
    except UnicodeEncodeError:
        raise WireError("a string holds half a surrogate pair") from None
    except WireError:
        raise
    except ValueError:
        raise WireError("NaN and infinities are not JSON") from None


def dump_names(value: JsonValue) -> bytes:
    """The same for what may name files: octets in their names that are not UTF-8 are spelled out. Raises WireError."""
    try:
        return dump(value)
    except WireError:
        return dump(_spelled(value))


def _spelled(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {name: _spelled(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [_spelled(item) for item in value]
    return value
