import pytest

from broker.contract.listener_names import is_name


@pytest.mark.parametrize("name", ["build-box", "a", "9", "x" * 64, "claude_code-2"])
def test_a_container_is_called_like_an_agent(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("name", ["", "Build", "-x", "x" * 65, "a b", "box\n", "unidentified", "unnamed", "bö"])
def test_nothing_else_is_a_name(name: str) -> None:
    assert not is_name(name)
