"""Which paths, or words of a command, rules can tell apart: one example for each set of patterns that fit together.

The patterns are walked side by side, word by word, so that where several meet is found as well as where one stands
alone. Where there are more states than anybody waits for, it is said that the walk was not to its end.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from broker.core.ssh.commands import ONE, OPTION, REST

FRESH = "\0"  # a word that no pattern names
FRESH_OPTION = "-\0"  # the same, of those that begin with a dash
STEPS_MAX = 60_000
WAYS_MAX = 256

_Places: TypeAlias = "tuple[frozenset[int], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A pattern: `*` is one word, `**` any number. Folded ones are compared without regard to case, and are lower.

    Without `options`, `*` and `**` stand for no word that begins with a dash.
    """

    tokens: tuple[str, ...]
    folded: bool = False
    options: bool = True

    def start(self) -> frozenset[int]:
        return self._closed({0})

    def after(self, places: frozenset[int], word: str) -> frozenset[int]:
        reached: set[int] = set()
        for at in places:
            token = self.tokens[at] if at < len(self.tokens) else None
            if token == REST and self._is_wild(word):
                reached.add(at)
            elif token is not None and self._takes(token, word):
                reached.add(at + 1)
        return self._closed(reached)

    def accepts(self, places: frozenset[int]) -> bool:
        return len(self.tokens) in places

    def named(self, places: frozenset[int]) -> Iterator[str]:
        """The literal words that may come next."""
        tokens = (self.tokens[at] for at in places if at < len(self.tokens))
        return (token for token in tokens if token not in {ONE, REST, OPTION})

    def _closed(self, places: set[int]) -> frozenset[int]:
        for at in sorted(places):
            behind = at
            while behind < len(self.tokens) and self.tokens[behind] == REST:
                behind += 1
                places.add(behind)
        return frozenset(places)

    def _takes(self, token: str, word: str) -> bool:
        if token == OPTION:
            return word.startswith("-")
        return self._is_wild(word) if token == ONE else token == (word.casefold() if self.folded else word)

    def _is_wild(self, word: str) -> bool:
        return self.options or not word.startswith("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """Examples, the first of which is as little named as can be. `whole` is false where some may be missing."""

    ways: tuple[tuple[str, ...], ...]
    whole: bool


@lru_cache(maxsize=2048)
def explored(subject: Shape, shapes: frozenset[Shape]) -> Explored:
    """One way of the subject for each set of the shapes that fit one."""
    walked = (subject, *sorted(shapes, key=lambda shape: (shape.tokens, shape.folded, shape.options)))
    first = _unnamed(walked)
    found = {_fitting(walked, first): first}
    start = tuple(shape.start() for shape in walked)
    known, steps = {start}, 0
    ahead: deque[tuple[_Places, tuple[str, ...]]] = deque([(start, ())])
    while ahead:
        places, way = ahead.popleft()
        if subject.accepts(places[0]):
            found.setdefault(_accepting(walked, places), way)
        if steps > STEPS_MAX or len(found) > WAYS_MAX:
            return Explored(ways=tuple(found.values()), whole=False)
        for word in _words(walked, places):
            steps += len(walked)
            reached = _after(walked, places, word)
            if reached[0] and reached not in known:
                known.add(reached)
                ahead.append((reached, (*way, word)))
    return Explored(ways=tuple(found.values()), whole=True)


def _after(walked: tuple[Shape, ...], places: _Places, word: str) -> _Places:
    return tuple(shape.after(at, word) for shape, at in zip(walked, places, strict=True))


def _accepting(walked: tuple[Shape, ...], places: _Places) -> tuple[bool, ...]:
    return tuple(shape.accepts(at) for shape, at in zip(walked[1:], places[1:], strict=True))


def _fitting(walked: tuple[Shape, ...], way: tuple[str, ...]) -> tuple[bool, ...]:
    places = tuple(shape.start() for shape in walked)
    for word in way:
        places = _after(walked, places, word)
    return _accepting(walked, places)


def _words(walked: tuple[Shape, ...], places: _Places) -> list[str]:
    """What may come next and makes a difference: each named word, another case of it where that matters, and others."""
    named: set[str] = set()
    other_case: set[str] = set()
    for shape, at in zip(walked, places, strict=True):
        tokens = set(shape.named(at))
        named |= tokens
        other_case |= {token.upper() for token in tokens} if shape.folded else set()
    return [FRESH, FRESH_OPTION, *sorted(named), *sorted(other_case - named)]


def _unnamed(walked: tuple[Shape, ...]) -> tuple[str, ...]:
    """A way of the subject that goes further than any pattern spells out."""
    longest = max(len(shape.tokens) for shape in walked) + 1
    way: list[str] = []
    for token in walked[0].tokens:
        way += [FRESH] * longest if token == REST else [{ONE: FRESH, OPTION: FRESH_OPTION}.get(token, token)]
    return tuple(way)
