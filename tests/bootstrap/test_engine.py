"""A lab that is not whole is not up."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from lab_world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("waited", ["0", "1"])
@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({"gcs": "running|unhealthy"}, "gcs (unhealthy)"),
        ({"gcs": "running|starting"}, "gcs (starting)"),
        ({"gcs": "restarting|unhealthy"}, "gcs (restarting)"),
        ({"gcs": "exited|unhealthy", "drone": "running|unhealthy"}, "drone (unhealthy), gcs (exited)"),
        ({"gcs": "paused|-"}, "gcs (paused)"),
        ({"gcs": ""}, "gcs (missing)"),
        ({"link": "running|unhealthy"}, "link (unhealthy)"),
    ],
)
def test_a_lab_that_is_not_whole_is_four_and_its_table_comes_first(
    world: World, others: dict[str, str], told: str, waited: str
) -> None:
    """Whether compose noticed it while it waited, or it fell ill afterwards."""
    world.services(**others)
    (world.folder / "up").write_text(waited)
    command = f"{world.here / 'compose/lab.sh'} up 2>&1"
    done = subprocess.run(
        ["sh", "-c", command], env=world.environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 4
    table, error = done.stdout.index("\nSERVICE "), done.stdout.index("error: ")
    assert table < error
    assert f"error: the lab is not whole: {told}\n" in done.stdout
    assert "\n  next: docker logs" in done.stdout
    if told != "gcs (missing)":
        assert "last words of pqlab-" in done.stdout
    assert world.lab("status").returncode == 0, "a table is what was asked for"


@pytest.mark.parametrize(
    "others", [{}, {"gcs": "running|-"}, {"link": "exited|unhealthy"}, {"detector_tst": "paused|healthy"}]
)
def test_what_a_lab_may_hold_besides_is_no_reason(world: World, others: dict[str, str]) -> None:
    """A profile's service that has ended, a detector that a campaign left frozen, a service without a check."""
    world.services(**others)
    done = world.lab("up")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_start_that_failed_otherwise_says_its_own_reason(world: World) -> None:
    (world.folder / "up").write_text("17")
    done = world.lab("up")
    assert done.returncode == 4
    assert "the command ended with 1;" in done.stderr and "SERVICE" in done.stdout
