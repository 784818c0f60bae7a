"""Where a package that stands on pqbase is put, pqbase is put too: images, the Windows station, the emulated
Pi's guest, `.venv`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = [
    *sorted((ROOT / "images").glob("*/Dockerfile")),
    ROOT / "ansible/roles/gcs_windows/tasks/endpoint.yml",
    ROOT / "emulated-pi/gather",
    ROOT / "bench/document",
]
#: made from the tunnel's image, which has it
UPON_TUNNEL = "ARG TUNNEL=pqlab/tunnel:dev"


def on_base() -> set[str]:
    """Folders of the packages that import pqbase."""
    sources = [path for path in ROOT.glob("*/src/**/*.py") if " pqbase" in path.read_text("utf-8")]
    return {path.relative_to(ROOT).parts[0] for path in sources} - {"base"}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: str(place.relative_to(ROOT)))
def test_base_comes_along(place: Path) -> None:
    text = place.read_text(encoding="utf-8")
    put = set(re.findall(r"\b(\w+)/src\b", text))
    assert {"tunnel", "telemetry", "sitl"} <= on_base()
    if put & on_base() and UPON_TUNNEL not in text:
        assert "base" in put


def test_an_image_with_base_is_built_again_when_base_changes() -> None:
    text = (ROOT / "images/build.sh").read_text(encoding="utf-8")
    inputs = text[text.index("inputs() {") : text.index("parents() {")]
    for place in PLACES:
        if place.name == "Dockerfile" and "COPY base/src" in place.read_text(encoding="utf-8"):
            (row,) = re.findall(rf"^ +{place.parent.name}(?:-\*| \|.*)?\) echo (.*) ;;", inputs, re.M)
            assert "base/src" in row.split(), place.parent.name


def test_the_host_has_every_package() -> None:
    text = (ROOT / "bootstrap.sh").read_text(encoding="utf-8")
    (named,) = re.findall(r'^PACKAGES="([\w ]+)"$', text, re.M)
    assert set(named.split()) >= {"base", *on_base()} - {"bench"}
