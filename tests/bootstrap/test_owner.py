"""One lab, one owner: what lab.sh does where the lab is another checkout's, or a campaign runs on it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab_world import ROOT, World
from pqevidence.errors import LabError
from pqlab.campaign import owner as campaign_owner
from pqlab.cli.run import controller
from pqlab.inventory import Inventory, load_inventory
from tools import ended
from waiting import LIMIT_S


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


CHANGES = (("up",), ("down",), ("free",), ("profile", "link"), ("mine",))


@pytest.mark.parametrize("words", CHANGES)
@pytest.mark.parametrize("runs", [False, True])
def test_another_checkouts_lab_is_left_alone(world: World, words: tuple[str, ...], runs: bool) -> None:
    world.lab_of(world.there)
    world.campaign(runs=runs)
    done = world.lab(*words)
    assert done.returncode == 4
    assert world.changed() == []
    what, why, following = done.stderr.splitlines()
    assert "another checkout's" in what
    assert ("and a campaign runs on it" in what) == runs and ("no campaign runs on it" in what) != runs
    assert str(world.there) in why
    assert f"make -C '{world.there}' lab-down" in following
    assert world.lab("is-up").returncode == 1
    assert f"the lab is that of '{world.there}'" in world.lab("status").stdout


@pytest.mark.parametrize("words", [("up",), ("down",), ("free",)])
def test_nobody_takes_the_lab_from_under_a_campaign(world: World, words: tuple[str, ...]) -> None:
    world.lab_of(world.here)
    world.campaign(runs=True)
    done = world.lab(*words)
    assert done.returncode == 4
    assert world.changed() == []
    assert "error: a campaign runs on the lab" in done.stderr
    assert "next: ./pqlab status" in done.stderr
    assert world.lab("mine").returncode == 0, "the campaign itself may go on, and start profiles"
    assert "a campaign runs on it" in world.lab("status").stdout


def test_our_own_lab_comes_up_again_and_goes_down_when_no_campaign_runs(world: World) -> None:
    world.lab_of(world.here)
    world.campaign(runs=False)
    assert world.lab("is-up").returncode == 0
    assert world.lab("up").returncode == 0
    assert world.lab("down").returncode == 0
    assert [" up " in line for line in world.changed()] == [True, False]


def test_a_checkout_reached_by_a_link_is_the_same_checkout(world: World) -> None:
    world.lab_of(world.here)
    link = world.folder / "link"
    link.symlink_to(world.here)
    assert world.lab("down", tree=link).returncode == 0


def test_the_lab_of_a_checkout_that_is_gone_may_be_taken_down_by_anybody(world: World) -> None:
    world.lab_of(world.there)
    shutil.rmtree(world.there)
    mine = world.lab("mine")
    assert mine.returncode == 4 and "that is gone" in mine.stderr and "make lab-up" in mine.stderr
    down = world.lab("down")
    assert down.returncode == 0, down.stderr
    assert f"the checkout of the lab, '{world.there}', is gone" in down.stdout
    assert len(world.changed()) == 1


def test_but_not_from_under_its_campaign(world: World) -> None:
    world.lab_of(world.there)
    shutil.rmtree(world.there)
    world.campaign(runs=True)
    assert world.lab("down").returncode == 4
    assert world.changed() == []


@pytest.mark.parametrize("stopped", [True, False])
def test_what_a_checkout_left_goes_before_a_lab_of_ours_comes(world: World, stopped: bool) -> None:
    """compose would start stopped containers as they are, with the other's label and keys."""
    world.lab_of(world.there, stopped=stopped)
    if not stopped:
        shutil.rmtree(world.there)
    done = world.lab("up")
    assert done.returncode == 0, done.stderr
    assert [" down " in line for line in world.changed()] == [True, False]
    assert world.lab("is-up").returncode == 0


def test_a_second_lab_up_does_not_blame_a_stranger_for_the_first_ones_ports(world: World) -> None:
    """It looked when no container ran; a moment later the lab's own listen."""
    (world.folder / "net/tcp").write_text(
        "  sl  local_address rem_address   st\n   0: 0100007F:1F96 00000000:0000 0A\n"
    )
    alone = world.lab("up")
    assert alone.returncode == 4 and "another program listens on 8086" in alone.stderr
    # the first one's containers are there, and none of them runs yet
    engine = world.folder / "bin/docker"
    first = 'case "$*" in\n'
    created = f"{first}    'ps -aq '*'=pqlab --filter status=created') echo c0ffee ;;\n"
    engine.write_text(engine.read_text().replace(first, created, 1))
    told = world.lab("up")
    assert told.returncode == 4
    assert "the lab is being brought up already" in told.stderr and "another program" not in told.stderr


def test_a_lab_of_two_is_that_of_the_most(world: World) -> None:
    (world.folder / "living").write_text(f"{world.there}/compose\n" + f"{world.here}/compose\n" * 2)
    assert world.lab("mine").returncode == 0
    assert world.lab("mine", tree=world.there).returncode == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into every folder")
def test_a_checkout_that_we_may_not_look_into_is_not_gone(world: World) -> None:
    world.lab_of(world.there / "inner")
    world.there.chmod(0)
    try:
        done = world.lab("down")
    finally:
        world.there.chmod(0o755)
    assert done.returncode == 4 and "another checkout's" in done.stderr


@pytest.mark.parametrize("target", ["lab-down", "purge", "run"])
def test_make_says_it_too(world: World, target: str) -> None:
    world.lab_of(world.there)
    done = ended(
        ["make", "--no-print-directory", target],
        60,
        cwd=world.here,
        env={k: v for k, v in world.environment.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")},
    )
    assert done.returncode == 2, "make flattens exit codes"
    assert "Error 4" in done.stderr and done.stderr.count("error: the lab on this machine is another") == 1
    assert world.changed() == []


def test_make_lab_up_asks_before_it_builds() -> None:
    words = ["make", "--no-print-directory", "--dry-run", "lab-up"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    lines = done.stdout.splitlines()
    asks = next(i for i, line in enumerate(lines) if "lab.sh free" in line)
    assert asks < next(i for i, line in enumerate(lines) if "build.sh" in line)


def test_purge_alone_asks_as_well(world: World) -> None:
    world.lab_of(world.there)
    done = ended(
        [world.here / "bootstrap.sh", "purge"],
        60,
        env={**world.environment, "PQLAB_STATE": str(world.folder / "state")},
    )
    assert done.returncode == 4 and "another checkout's" in done.stderr
    assert world.changed() == []


# ---------------------------------------------------------------------- a campaign


@pytest.fixture
def asking(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inventory]:
    """The container lab's inventory, in a process that sees this engine and works in our checkout."""
    for name in ("PATH", "WORLD", "PQLAB_PROC_NET"):
        monkeypatch.setenv(name, world.environment[name])
    monkeypatch.setattr(campaign_owner, "project_root", lambda: world.here)
    yield load_inventory(str(ROOT / "ansible/inventories/lab.ini"))


def test_a_campaign_on_anothers_lab_is_refused_before_it_begins(world: World, asking: Inventory) -> None:
    world.lab_of(world.there)
    with pytest.raises(LabError) as caught, controller(asking):
        raise AssertionError("it began")
    assert (caught.value.code, caught.value.exit_code) == ("not-our-lab", 4)
    assert "another checkout's" in caught.value.what and str(world.there) in caught.value.why
    assert "lab-down" in caught.value.hint


def test_a_campaign_on_our_own_lab_begins_and_its_lock_is_what_the_shell_sees(
    world: World, asking: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name as the kernel shows it, not as this test writes it."""
    world.lab_of(world.here)
    monkeypatch.setenv("PQLAB_PROC_NET", "/proc/net")
    if not Path("/proc/net/unix").exists():
        pytest.skip("no /proc/net/unix here")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind("\0pqlab-controller/127.0.0.1:48080")
        except OSError:
            pytest.skip("a campaign runs on this machine")
    command = [str(world.here / "compose/lab.sh"), "free"]
    with controller(asking):
        held = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    after = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (held.returncode, after.returncode) == (4, 0)
