"""What holds for every test of the tree: a property test is about its property, not about the load."""

from __future__ import annotations

import gc
import importlib.util
import sys
from pathlib import Path

import pytest

#: functions that take long: seconds and name a line (tests/slow.py)
SLOW = Path(__file__).parent / "tests" / "slow.txt"

# The end-to-end tests run on the host, where hypothesis is not installed.
if importlib.util.find_spec("hypothesis") is not None:
    from hypothesis import HealthCheck, settings

    settings.register_profile("any-load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any-load")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--fast`: without what tests/slow.txt names."""
    parser.addoption("--fast", action="store_true", help="leave out tests that take long (tests/slow.txt)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under Windows, skip what is marked as Linux's own, and say what it needs. With --fast, leave out what
    takes long."""
    if sys.platform == "win32":
        for item in items:
            mark = item.get_closest_marker("linux")
            if mark is not None:
                item.add_marker(pytest.mark.skip(reason=f"not under Windows: {mark.args[0]}"))
    if config.getoption("--fast", default=False):
        slow = {line.split()[1] for line in SLOW.read_text("utf-8").splitlines()}
        left_out = [item for item in items if item.nodeid.partition("[")[0] in slow]
        items[:] = [item for item in items if item.nodeid.partition("[")[0] not in slow]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="module", autouse=True)
def what_stays_is_no_garbage() -> None:
    """What pytest and the modules before keep is looked through no more: a bench collects before it measures,
    and among thousands of collected tests each time took half a second."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what a fast run does not know."""
    if config.getoption("--fast", default=False):
        count = len(SLOW.read_text("utf-8").splitlines())
        told = f"fast: {count} functions that take long were left out (tests/slow.txt); make test runs all"
        terminalreporter.write_line(told)
