"""How a container's listener may be called: like an agent in a policy, and never what stands for nobody."""

import re

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_OURS = frozenset({"unidentified", "unnamed"})


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and text not in _OURS
