"""What may have begun at the end of a part is held back, however deep escapes stand within escapes."""

import pytest

from broker.core.secret import Secret
from broker.core.secret_set import SecretSet

VALUES = SecretSet(replaced=[Secret("canary-token-0123456789abcdef")])


@pytest.mark.parametrize(("escapes", "held"), [(0, 0), (1, 1), (16, 16), (20, 16), (40, 16)])
def test_no_more_than_sixteen_escapes_within_escapes_are_looked_at(escapes: int, held: int) -> None:
    before = b"x" * 50
    data = before + b"&#37;" * escapes

    assert len(data) - 5 * held == VALUES.unfinished_in(data)
