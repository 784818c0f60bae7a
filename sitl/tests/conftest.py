"""Property tests judge results, not the clock of a shared machine."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("lab", deadline=None)
settings.load_profile("lab")
