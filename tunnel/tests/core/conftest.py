"""Fixtures of the protocol core's tests. Helpers live in core_kit, importable because this folder is on the
path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from core_kit import Lab, native_primitives

from pqtunnel.errors import ProviderMissing
from pqtunnel.primitives import Primitives


@pytest.fixture
def lab() -> Lab:
    """Two identities over test doubles: fast, deterministic, no native code."""
    return Lab()


@pytest.fixture(scope="session")
def native() -> Primitives:
    """This host's own primitives; skips, with the reason, where liboqs is missing."""
    try:
        return native_primitives()
    except ProviderMissing as error:
        pytest.skip(str(error))
