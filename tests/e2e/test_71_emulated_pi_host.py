# ruff: noqa: E501 - a row of a table stays on its line
"""The emulated Pi as the drone: provisioned over ssh like a real one, then a scenario through it, then given back.

It takes the place of the drone's container in the running lab and hands it back at the end. Provisioning an emulated
processor takes minutes that not every check has: asked for by PQLAB_PI_HOST=1.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from busy import BUSY_OK
from played import Played, play

from .conftest import ROOT, load_records, measured, pqlab, run

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        os.environ.get("PQLAB_PI_HOST") != "1",
        reason="provisioning an emulated machine takes minutes: PQLAB_PI_HOST=1",
    ),
]

HOST = "emulated-pi"
INVENTORY = "ansible/inventories/emulated-pi.ini"
BOARD = ("-i", "inventories/emulated-pi.ini")
#: a module takes the emulated processor 2 to 10 s, and a converge is some seventy of them
PLAY_LIMIT_S = 1800.0
SUITE = "cs-mlkem768-aesgcm-mldsa65"
#: what the roles make on a host, by what it leaves; nothing printed: nothing there
LEFT = (
    "ls -d /etc/pqlab /opt/pqlab /var/lib/pqlab-host /etc/systemd/system/*pq* /etc/systemd/system/*.wants/*pq*"
    " /etc/udev/rules.d/*pqlab* /etc/modules-load.d/pqlab* /etc/chrony/sources.d/pqlab* 2>/dev/null;"
    " getent passwd pqlab; getent group pqlab; sudo nft list tables | grep pqlab;"
    " grep PQ-MAV /boot/firmware/config.txt; true"
)


def ssh(*words: str, stdin: bytes | None = None) -> str:
    """A command in the guest; its output. Raises when it does not end with 0."""
    done = subprocess.run(
        ["./emulated-pi/lab", "ssh", *words],
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()[-2000:]
    return done.stdout.decode()


def provision(*words: str) -> Played:
    return play("provision.yml", *BOARD, *words, timeout_s=PLAY_LIMIT_S)


@pytest.fixture(scope="module")
def board(lab: None) -> Iterator[None]:
    """A virgin emulated Pi in the drone's place."""
    if platform.machine() != "x86_64":
        pytest.skip(f"the guest is built on x86-64, this is {platform.machine()}")
    ready = run("./bootstrap.sh", "ansible-venv", timeout_s=300)
    assert ready.code == 0, ready.text[-3000:]
    up = run("./emulated-pi/lab", "up", timeout_s=900)
    assert up.code == 0, up.text[-4000:]
    try:
        yield
    finally:
        back = run("./compose/lab.sh", "up", timeout_s=300)
        assert back.code == 0, back.text[-3000:]


def test_check_mode_is_clean_on_a_virgin_host(board: None) -> None:
    played = provision("--check")
    assert played.code == 0, played.failures or played.text[-3000:]
    assert len(played.changed) > 10
    assert ssh(LEFT) == ""


def test_converge_brings_an_agent_that_runs(board: None) -> None:
    played = provision()
    assert played.code == 0, played.failures or played.text[-3000:]
    assert len(played.changed) > 10
    assert ssh("systemctl is-active pqtunnel-drone pqlab-firewall").split() == ["active"] * 2


def test_the_second_converge_changes_nothing(board: None) -> None:
    played = provision()
    assert played.code == 0, played.failures or played.text[-3000:]
    assert played.changed == []


def test_a_deleted_file_is_all_that_changes(board: None) -> None:
    ssh("sudo rm /etc/udev/rules.d/60-pqlab-i2c.rules")
    played = provision()
    assert played.code == 0, played.failures or played.text[-3000:]
    # here udev runs, so the rule is also read again
    assert played.changed == [f"{HOST}: Give the bus to that group", f"{HOST}: Read the udev rules again"]
    assert "i2c" in ssh("stat -c %G /dev/i2c-0")


def test_tune_sets_real_settings_and_untune_gives_them_back(board: None) -> None:
    packed = subprocess.run(
        [
            "tar",
            "-cz",
            "-C",
            "conduct/src",
            "pqlab/__init__.py",
            "pqlab/doctor",
            "-C",
            "../../evidence/src",
            "pqevidence/__init__.py",
            "pqevidence/errors.py",
            "-C",
            "../../tunnel/src",
            "pqtunnel",
            "-C",
            "../../base/src",
            "pqbase",
        ],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    ssh("mkdir -p lab && tar -xz -C lab", stdin=packed.stdout)
    read = "cat /proc/sys/net/core/rmem_max /proc/sys/net/core/wmem_max"
    call = (
        "cd lab && sudo python3 -c 'from pathlib import Path; from pqlab.doctor import REQUIREMENTS, System, tuning;"
        ' s, f = System(Path("/")), tuning.DEFAULT_STATE; print([r.done for r in {}])\''
    )
    before = ssh(read).split()
    assert "set" in ssh(call.format("tuning.tune(REQUIREMENTS, s, f)"))
    assert ssh(read).split() == ["4194304", "4194304"]
    assert "restored" in ssh(call.format("tuning.untune(s, f)"))
    assert ssh(read).split() == before
    ssh("test ! -e /run/pqlab/tune.json")


def test_a_scenario_through_the_emulated_pi_makes_a_bundle_of_ring_lab(board: None, results: Path) -> None:
    doctor = pqlab("doctor", "--inventory", INVENTORY, "--json")
    found = {row["name"]: row for row in doctor.json()["findings"]}
    assert found["drone agent"]["status"] == "ok", found["drone agent"]
    assert found["providers"]["status"] == "ok", found["providers"]
    assert "synthetic" in found["drone power"]["observed"], found["drone power"]
    done = pqlab(
        "run",
        "smoke",
        "--suites",
        SUITE,
        "--reps",
        "1",
        "--session-s",
        "5",
        "--inventory",
        INVENTORY,
        "--out",
        str(results),
        "--json",
        *BUSY_OK,
        timeout_s=400,
    )
    bundle = measured(done)
    verified = pqlab("verify", str(bundle))
    assert verified.code in (0, 3), verified.text[-4000:]
    (record,) = load_records(bundle)
    assert record["ring"] == "lab"
    hosts = {
        role: json.loads((bundle / f"data/hosts/{role}.json").read_text()) for role in ("drone", "controller")
    }
    assert hosts["drone"]["host"]["hostname"] == "emulated-pi"
    sensor = next(row for row in hosts["drone"]["sensors"] if row["name"] == "power")
    assert (sensor["sensor_class"], sensor["available"]) == ("stub-bus", True)
    lines = next((bundle / "data/cells").glob("*/telemetry.drone.lp")).read_text()
    power = [line for line in lines.splitlines() if line.startswith("pq_power,")]
    assert power
    assert all("sensor_class=stub-bus" in line and "synthetic=true" in line for line in power)
    assert "synthetic" in (bundle / "data/report.html").read_text()
    steady = hosts["controller"]["steadiness"]
    assert {row["name"] for row in steady["before"]["findings"]} == {
        row["name"] for row in steady["after"]["findings"]
    }


def test_teardown_leaves_nothing_of_ours_on_the_host(board: None) -> None:
    # without the limit the controller's part goes as well: the lab, and the host that is to be looked at with it
    played = play("teardown.yml", *BOARD, "--limit", HOST, timeout_s=PLAY_LIMIT_S)
    assert played.code == 0, played.failures or played.text[-3000:]
    assert ssh(LEFT) == ""
    assert "pqtunnel" not in ssh("ps -eo args")
