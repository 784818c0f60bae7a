"""A lab that is not whole is not up, and an engine that runs for others is not missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lab_world import ROOT, World
from tools import ended

DENIED = (
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: "
    "dial unix /var/run/docker.sock: connect: permission denied\n"
)


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
    """A profile's service that has ended, a detector that a campaign left frozen, one without a check."""
    world.services(**others)
    done = world.lab("up")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_service_that_was_frozen_is_up_and_looked_at_before_compose_is_asked(world: World) -> None:
    """The engine calls it unhealthy, without a failed look, until its next look; compose gives up at that."""
    world.lab_of(world.here)
    (world.folder / "frozen").write_text("mavproxy-gcs\n")
    assert world.lab("is-up").returncode == 0
    (world.folder / "frozen").write_text("mavproxy-gcs\n")
    done = world.lab("up")
    assert done.returncode == 0, done.stderr
    asked = (world.folder / "asked").read_text().splitlines()
    begun = next(number for number, line in enumerate(asked) if " up " in line)
    looks = sum("status=running --filter health" in line for line in asked[:begun])
    assert looks == 3, "is-up, frozen, looked at"


def test_a_service_whose_looks_failed_is_not_up(world: World) -> None:
    world.lab_of(world.here)
    (world.folder / "ill").write_text("0123456789ab\n")
    assert world.lab("is-up").returncode == 1


def test_a_start_that_failed_otherwise_says_its_own_reason(world: World) -> None:
    (world.folder / "up").write_text("17")
    done = world.lab("up")
    assert done.returncode == 4
    assert "the command ended with 1;" in done.stderr and "SERVICE" in done.stdout


# ---------------------------------------------------------------------- a user outside group docker


def command(world: World, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of our checkout, where dockerd is not in the PATH, as for a user of Debian."""
    return ended(
        [world.here / words[0], *words[1:]],
        60,
        env={
            **world.environment,
            "PQLAB_STATE": str(world.folder / "state"),
            "PATH": f"{world.folder / 'bin'}:/usr/bin:/bin",
        },
    )


@pytest.mark.parametrize(
    "words",
    [
        ("bootstrap.sh", "engine"),
        ("compose/lab.sh", "up"),
        ("compose/lab.sh", "down"),
        ("compose/lab.sh", "status"),
        ("compose/lab.sh", "profile", "link"),
    ],
)
def test_who_is_not_in_group_docker_is_told_that(world: World, words: tuple[str, ...]) -> None:
    (world.folder / "denied").write_text(DENIED)
    done = command(world, *words)
    assert done.returncode == 4
    what, why, following = done.stderr.splitlines()
    assert what == "error: the container engine runs, but not for you"
    assert "somebody is not in group docker" in why
    assert "usermod -aG docker" in following and "sudo before it" in following
    assert "missing" not in done.stderr + done.stdout
    assert world.changed() == []


def test_an_engine_that_does_not_run_is_another_matter(world: World) -> None:
    (world.folder / "denied").write_text(
        "Cannot connect to the Docker daemon. Is the docker daemon running?\n"
    )
    up, down, status = (command(world, "compose/lab.sh", verb) for verb in ("up", "down", "status"))
    assert up.returncode == 4 and "no container engine answers" in up.stderr
    assert (down.returncode, status.returncode) == (0, 0)


def test_images_are_not_built_by_one_either(world: World) -> None:
    (world.folder / "denied").write_text(DENIED)
    done = ended([ROOT / "images/build.sh", "base"], 60, env={**os.environ, **world.environment})
    assert done.returncode == 4 and "but not for you" in done.stderr
