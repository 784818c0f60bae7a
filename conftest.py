"""What holds for every test of the tree: a property test is about its property, not about the load."""

from __future__ import annotations

import importlib.util

# The end-to-end tests run on the host, where hypothesis is not installed.
if importlib.util.find_spec("hypothesis") is not None:
    from hypothesis import HealthCheck, settings

    settings.register_profile("any-load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any-load")
