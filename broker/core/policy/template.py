"""Path templates of operations: which path fits, with which arguments, and the path that arguments spell.

`{name}` fills one whole segment, `{name...}` at the end fills one or more. Compares decoded segments and writes
encoded ones, so that an argument can never reach past its segment.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from broker.core.urls import UrlError, check_path, segments_of

_ARGUMENT = re.compile(r"\{([a-z][a-z0-9_]*)(\.\.\.)?\}")
_NO_SEGMENT = frozenset({"", ".", ".."})


class TemplateError(ValueError):
    """The template or an argument for it is not acceptable. The message says why and holds no argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A literal (`argument` is None) or an argument, which is greedy where it may hold slashes."""

    text: str
    argument: str | None = None
    greedy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    segments: tuple[Segment, ...]
    ends_in_slash: bool

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(segment.argument for segment in self.segments if segment.argument is not None)

    @property
    def rank(self) -> tuple[int, tuple[int, ...]]:
        """Smaller is more literal: first the count of literals, then how early they stand."""
        kinds = tuple(2 if segment.greedy else int(segment.argument is not None) for segment in self.segments)
        return (-kinds.count(0), kinds)

    @property
    def shape(self) -> tuple[str, ...]:
        """Equal for two templates that the same paths fit."""
        wild = (("**" if s.greedy else "*") if s.argument is not None else f"={s.text}" for s in self.segments)
        return (*wild, "/" if self.ends_in_slash else "")

    @property
    def pattern(self) -> tuple[str, ...]:
        """The same as a path pattern of rules: `*` one segment, `**` any number."""
        parts: list[str] = []
        for segment in self.segments:
            parts += [segment.text] if segment.argument is None else ["*"]
            parts += ["**"] if segment.greedy else []
        return tuple(parts)


@lru_cache(maxsize=4096)
def template_of(text: str) -> Template:
    """Parse a template. Raises TemplateError."""
    if not text.startswith("/"):
        raise TemplateError("a path begins with a slash")
    ends_in_slash = text != "/" and text.endswith("/")
    parts = [] if text == "/" else text[1:].removesuffix("/").split("/")
    segments = tuple(_segment(part, is_last=position == len(parts)) for position, part in enumerate(parts, start=1))
    names = [segment.argument for segment in segments if segment.argument is not None]
    if len(set(names)) != len(names):
        raise TemplateError("an argument stands twice in the path")
    return Template(segments=segments, ends_in_slash=ends_in_slash)


def _segment(part: str, *, is_last: bool) -> Segment:
    match = _ARGUMENT.fullmatch(part)
    if match is not None:
        if match[2] and not is_last:
            raise TemplateError("{name...} stands at the end alone")
        return Segment(text="", argument=match[1], greedy=bool(match[2]))
    if "{" in part or "}" in part:
        raise TemplateError("an argument fills a whole segment: {name}, in lower case")
    try:
        check_path(f"/{part}")
    except UrlError as cause:
        raise TemplateError(str(cause)) from None
    if not part or re.search(r"[^!-~]|[?#%*\\]", part):
        raise TemplateError("a literal segment is plain ASCII without ? # % * or back-slash")
    return Segment(text=part)


def arguments_in(template: Template, path: str) -> dict[str, str] | None:
    """The arguments with which the template spells this canonical path; None where it does not fit."""
    segments = segments_of(path)
    if template.ends_in_slash != (len(path) > 1 and path.endswith("/")):
        return None
    wanted = template.segments
    greedy = bool(wanted) and wanted[-1].greedy
    if len(segments) != len(wanted) and not (greedy and len(segments) > len(wanted)):
        return None
    found: dict[str, str] = {}
    for position, part in enumerate(wanted):
        if part.argument is None:
            if part.text != segments[position]:
                return None
        else:
            found[part.argument] = "/".join(segments[position:]) if part.greedy else segments[position]
    return found


def path_with(template: Template, arguments: Mapping[str, str]) -> str:
    """The encoded path that the arguments spell. Every argument of the template has to be there."""
    parts = [
        part.text if part.argument is None else _encoded(part.argument, arguments[part.argument], greedy=part.greedy)
        for part in template.segments
    ]
    return "/" + "/".join(parts) + ("/" if template.ends_in_slash else "")


def _encoded(name: str, value: str, *, greedy: bool) -> str:
    pieces = value.split("/") if greedy else [value]
    if any(piece in _NO_SEGMENT for piece in pieces):
        raise TemplateError(f"{name} is empty or a dot segment")
    if any("/" in piece for piece in pieces):
        raise TemplateError(f"{name} holds a slash, and fills one segment of the path")
    try:
        return "/".join(quote(piece, safe="") for piece in pieces)
    except UnicodeEncodeError:
        raise TemplateError(f"{name} holds half a surrogate pair") from None
