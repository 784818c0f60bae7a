"""What a scenario by playbook says where it fails. Its cells may be disturbed: what is told is what is asked
for."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from played import begun, play, read

from .conftest import CALM, LAB, campaign, run

pytestmark = [pytest.mark.e2e, pytest.mark.beside_waits, pytest.mark.usefixtures("lab")]

SHORT = ("-e", "scenario=smoke", "-e", "suites=cs-mlkem768-aesgcm-mldsa65", "-e", "session_s=3", *CALM)


def test_a_peer_killed_in_its_cell_fails_the_cell_and_heals() -> None:
    first = begun("run-scenario.yml", *LAB, *SHORT, "-e", "reps=2")
    deadline = time.monotonic() + 90
    while (status := campaign().get("status") or {}).get("current") is None:
        assert time.monotonic() < deadline, status
        assert first.poll() is None, campaign()
        time.sleep(0.3)
    time.sleep(2)
    pid = run("docker", "inspect", "-f", "{{.State.Pid}}", "pqlab-drone-1").stdout.strip()
    os.kill(int(pid), signal.SIGKILL)
    out, err = first.communicate(timeout=200)
    played = read(first.returncode, out, err, 0.0)
    assert played.code != 0
    told = played.said("Stop with the reason")
    assert "1 fail" in told
    assert "report.html" in told
    assert "[x] drone" in played.said("Say what healing did")


def test_a_full_disk_is_told_and_healed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("skipped: mounting a small tmpfs needs root")
    small = tmp_path / "small"
    small.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=256k", "pqlab-test", str(small))
    try:
        played = play("run-scenario.yml", *LAB, *SHORT, "-e", "reps=1", "-e", f"out={small}")
    finally:
        run("umount", str(small))
    assert played.code != 0
    assert "space" in played.said("Stop with the reason")
    assert "[x] gcs" in played.said("Say what healing did")


def test_no_scenario_and_an_unknown_one() -> None:
    assert "No scenario was named" in play("run-scenario.yml", *LAB).said("Stop with the reason")
    played = play("run-scenario.yml", *LAB, "-e", "scenario=smok")
    assert "smoke" in played.said("Stop with the reason")
    assert "was idle" in played.said("Say what healing did")
