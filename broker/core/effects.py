"""What a method does where no operation declares it, and the word by which humans are told of an effect."""

from broker.contract.reasons import Effect

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
READING = frozenset({"GET", "HEAD", "OPTIONS"})

_WORDS = {Effect.READ: "READ", Effect.WRITE: "WRITE", Effect.EXEC: "RUN"}


def effect_of(method: str) -> Effect:
    return Effect.READ if method in READING else Effect.WRITE


def is_destructive(method: str) -> bool:
    return method == "DELETE"


def effect_word(effect: Effect, *, destructive: bool) -> str:
    return "DELETE" if destructive else _WORDS[effect]
