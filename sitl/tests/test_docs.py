"""docs/TRAFFIC.md says what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from pqsitl import contract, director, vehicle
from pqsitl.mavproxy import air_plan, ground_plan, shown
from pqsitl.params import ParameterTable
from pqsitl.profile import load_profile, profile_names
from pqsitl.settings import Settings

DOCUMENT = Path(__file__).parents[2] / "docs" / "TRAFFIC.md"


@pytest.fixture(scope="module")
def text() -> str:
    return DOCUMENT.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", profile_names())
def test_profile_table(text: str, name: str) -> None:
    profile = load_profile(name)
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}`")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1] == f"{profile.rate_hz:g} Hz"
    assert cells[3] == f"{profile.burst_stats.per_second:.1f}"
    assert cells[4] == f"{profile.burst_stats.p50} / {profile.burst_stats.p95}"


@pytest.mark.linux("the document names MAVProxy's own program; Windows starts it another way")
def test_command_lines(text: str) -> None:
    assert shown(air_plan().command()) in text
    assert shown(ground_plan().command()) in text


def test_numbers(text: str) -> None:
    assert (
        f"total-variation distance of the size histogram from the profile's ≤ {contract.MAX_TV_DISTANCE}"
        in text
    )
    assert f"± {contract.RATE_TOLERANCE_LONG_PCT:g} % of the nominal" in text
    assert f"± {contract.RATE_TOLERANCE_SHORT_PCT:g} % below" in text
    assert f"no parameters beyond {len(ParameterTable())}," in text
    assert f"begins {vehicle.BOOT_OFFSET_NS // 10**9} s after its boot" in text
    assert f"takes off to {director.TAKEOFF_ALT_M:.0f} m" in text
    for role in ("vehicle", "ground"):
        settings = Settings.from_environment(role, {"PQ_VEHICLE_TARGET": "198.18.1.11:14550"})
        assert f"UDP {settings.sink_port} sink" in text
        assert f"TCP {settings.control_port}" in text
