"""Fixtures of the protocol core's tests. Helpers live in core_kit, importable because this folder is on the
path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from core_kit import Lab


@pytest.fixture
def lab() -> Lab:
    """Two identities over test doubles: fast, deterministic, no native code."""
    return Lab()
