"""A table of how many cases of each group hold, printed past whatever is captured."""

from collections.abc import Mapping

import pytest


def print_table(config: pytest.Config, held: Mapping[str, int], sizes: Mapping[str, int]) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if reporter is None or capture is None:
        return
    rows = [*((group, held.get(group, 0), size) for group, size in sizes.items())]
    rows.append(("all", sum(held.values()), sum(sizes.values())))
    with capture.global_and_fixture_disabled():
        reporter.write_line("")
        for group, count, size in rows:
            reporter.write_line(f"{group:<14}{count:>4} of {size:>3}")
