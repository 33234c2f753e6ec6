"""The seal that only the gate can set. Imported by core/gate.py and by nothing else (import rule)."""

from typing import Final, final


@final
class Seal:
    """A token without content; holding one proves that the gate's last step ran."""

    __slots__ = ()


SEAL: Final = Seal()
