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


@pytest.fixture(scope="session")
def native() -> object:
    """This host's own primitives, one of each kind tried; skips, with the reason, where liboqs is missing."""
    from pqtunnel.errors import ProviderMissing
    from pqtunnel.primitives import load
    from pqtunnel.suites import AEADS

    try:
        primitives = load()
        primitives.kem("mlkem512")
        primitives.sig("mldsa44")
        for token in AEADS:
            primitives.aead(token)
    except ProviderMissing as error:
        pytest.skip(str(error))
    return primitives


@pytest.fixture
def tls_folder(tmp_path: Path) -> Path:
    """Only the control plane's certificates, in the layout of the keys; needs no liboqs."""
    from rpc_kit import issue_all

    return issue_all(tmp_path / "tls")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A module that tests several data planes names them in PLANES; a test may name its own."""
    planes = getattr(metafunc.module, "PLANES", ())
    own = any(mark.args[0] == "plane" for mark in metafunc.definition.iter_markers("parametrize"))
    if planes and not own and "plane" in metafunc.fixturenames:
        metafunc.parametrize("plane", planes, indirect=True)


@pytest.fixture
def plane(request: pytest.FixtureRequest) -> str:
    """The data plane of `lab_pair`; "": this host's choice."""
    asked = str(getattr(request, "param", ""))
    if asked not in ("", "python"):
        pytest.importorskip("pq_core", reason="the native core's wheel is not installed here")
    return asked


@pytest.fixture
def lab_pair(key_folder: Path, tmp_path: Path, plane: str) -> Iterator[object]:
    """A drone and a gcs agent on loopback."""
    from endpoint_kit import lab

    with lab(key_folder, tmp_path, plane=plane) as pair:
        yield pair
