"""One browser and one set of pages for all tests of this folder."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import pages as looked_at
from chrome import Chrome


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    binary = shutil.which("chromium")
    assert binary, "these tests run in the image pqlab/browser: make test-pages"
    with Chrome(binary, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Kind → page."""
    return looked_at.make(tmp_path_factory.mktemp("pages"))
