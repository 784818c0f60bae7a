"""Fixtures shared by the tunnel's tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # helper modules beside the tests


@pytest.fixture(scope="session")
def key_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys of a lab, made once; needs liboqs."""
    from pqtunnel.keys import provision
    from pqtunnel.primitives import load

    folder = tmp_path_factory.mktemp("keys")
    provision(folder, load())
    return folder


@pytest.fixture
def tls_folder(tmp_path: Path) -> Path:
    """Only the control plane's certificates, in the layout of the keys; needs no liboqs."""
    from rpc_kit import issue_all

    return issue_all(tmp_path / "tls")


@pytest.fixture
def plane() -> str:
    """The data plane of `lab_pair`: this host's choice. Modules that test both override it."""
    return ""


@pytest.fixture
def lab_pair(key_folder: Path, tmp_path: Path, plane: str) -> Iterator[object]:
    """A drone and a gcs agent on loopback."""
    from endpoint_kit import lab

    with lab(key_folder, tmp_path, plane=plane) as pair:
        yield pair
