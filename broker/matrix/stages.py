"""Which stage speaks which channel. Only those that some case needs are brought up."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from broker.matrix.daemon_faults import DaemonStage
from broker.matrix.http_stage import HttpStage
from broker.matrix.ssh_stage import SshStage
from broker.matrix.stage import Stage


def _http() -> Stage:
    return HttpStage().__enter__()


OPENERS: Mapping[str, Callable[[], Stage]] = {"daemon": DaemonStage, "http": _http, "ssh": SshStage}


@contextmanager
def open_stages(channels: Collection[str]) -> Iterator[dict[str, Stage]]:
    """The stages by channel, closed in the end. A channel that nobody speaks is left out."""
    opened: dict[str, Stage] = {}
    try:
        for channel in sorted(channels):
            if channel in OPENERS:
                opened[channel] = OPENERS[channel]()
        yield opened
    finally:
        for stage in opened.values():
            stage.close()
