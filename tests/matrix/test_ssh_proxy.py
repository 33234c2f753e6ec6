"""The relay before a server: it carries what it is given, cuts what it is told to, and carries the next one again."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from broker.matrix.house import wait_until
from broker.matrix.ssh_proxy import CuttingProxy

LIMIT_S = 20.0


@pytest.fixture
def proxy() -> Iterator[CuttingProxy]:
    """Before a server that says everything again."""
    listener = socket.create_server(("127.0.0.1", 0))

    def echo() -> None:
        with contextlib.suppress(OSError):
            while True:
                end, _ = listener.accept()
                threading.Thread(target=again, args=(end,), daemon=True).start()

    def again(end: socket.socket) -> None:
        with end, contextlib.suppress(OSError):
            while chunk := end.recv(65_536):
                end.sendall(chunk)

    threading.Thread(target=echo, daemon=True).start()
    with listener, CuttingProxy(listener.getsockname()[1]) as made:
        yield made


def reach(proxy: CuttingProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=LIMIT_S)


def said(end: socket.socket, content: bytes) -> bytes:
    end.sendall(content)
    found = b""
    while len(found) < len(content) and (chunk := end.recv(65_536)):
        found += chunk
    return found


def test_what_goes_in_comes_out_both_ways(proxy: CuttingProxy) -> None:
    with reach(proxy) as one, reach(proxy) as other:
        assert b"one" * 9000 == said(one, b"one" * 9000)
        assert b"other" == said(other, b"other")
    assert 2 == proxy.accepted


def test_a_reset_is_seen_as_one_by_everybody_who_is_connected(proxy: CuttingProxy) -> None:
    with reach(proxy) as one, reach(proxy) as other:
        assert (b"a", b"b") == (said(one, b"a"), said(other, b"b"))
        assert 2 == proxy.cut()
        for end in (one, other):
            with pytest.raises(ConnectionResetError):
                end.recv(1)


def test_a_cut_in_order_is_an_end(proxy: CuttingProxy) -> None:
    with reach(proxy) as one:
        said(one, b"a")
        proxy.cut(reset=False)
        assert b"" == one.recv(1)


def test_later_connections_are_carried_as_before(proxy: CuttingProxy) -> None:
    with reach(proxy) as one:
        said(one, b"a")
        proxy.cut()
    with reach(proxy) as another:
        assert b"again" == said(another, b"again")
        assert 1 == proxy.cut()


def test_where_nobody_listens_the_connection_ends_and_the_proxy_goes_on() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with CuttingProxy(held.getsockname()[1]) as proxy:
            for _ in range(2):
                with reach(proxy) as one, contextlib.suppress(ConnectionResetError):
                    assert b"" == one.recv(1)
            assert wait_until(lambda: proxy.accepted == 2)
