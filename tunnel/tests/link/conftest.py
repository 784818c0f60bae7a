"""Tests of the native link (tunnel/link); they skip, with the reason, where its programs are not built."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # helper modules beside the tests
sys.path.insert(0, str(Path(__file__).parents[1] / "core"))  # the specification's helpers

if sys.platform == "win32":
    collect_ignore_glob = ["test_*.py"]  # the link is for Linux so far

from core_kit import native_primitives

from pqtunnel.errors import ProviderMissing
from pqtunnel.primitives import Primitives


@pytest.fixture(scope="session")
def native() -> Primitives:
    """This host's own primitives; skips, with the reason, where liboqs is missing."""
    try:
        return native_primitives()
    except ProviderMissing as error:
        pytest.skip(str(error))
