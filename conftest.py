"""What holds for every test of the tree: a property test is about its property, not about the load."""

from __future__ import annotations

import importlib.util
import sys

import pytest

# The end-to-end tests run on the host, where hypothesis is not installed.
if importlib.util.find_spec("hypothesis") is not None:
    from hypothesis import HealthCheck, settings

    settings.register_profile("any-load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any-load")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under Windows, skip what is marked as Linux's own, and say what it needs."""
    if sys.platform != "win32":
        return
    for item in items:
        mark = item.get_closest_marker("linux")
        if mark is not None:
            item.add_marker(pytest.mark.skip(reason=f"not under Windows: {mark.args[0]}"))
