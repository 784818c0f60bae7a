"""What goes wrong in the field: each says what happened, loses nothing, passes nothing half for whole."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from busy import BUSY_OK

from .conftest import ROOT, container, docker, measured, pqlab

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

ONE = ("run", "smoke", "--suites", "cs-mlkem768-aesgcm-mldsa65", *BUSY_OK)


def latest() -> str | None:
    link = ROOT / "results" / "latest"
    return str(link.readlink()) if link.is_symlink() else None


def work_dirs() -> set[str]:
    return {p.name for p in (ROOT / "results" / ".work").glob("*")}


def test_unknown_suite_names_the_nearest() -> None:
    done = pqlab("run", "smoke", "--suites", "cs-mlkem786-aesgcm-mldsa65")
    assert done.code == 2
    assert "cs-mlkem768-aesgcm-mldsa65" in done.text


def test_malformed_scenario_names_file_line_and_key(tmp_path: Path) -> None:
    text = (ROOT / "scenarios" / "smoke.yml").read_text().replace("repetitions:", "repetitons:")
    bad = tmp_path / "bad.yml"
    bad.write_text(text)
    line = 1 + text[: text.index("repetitons")].count("\n")
    done = pqlab("validate", str(bad))
    assert done.code == 2
    assert f"bad.yml:{line}" in done.text
    assert "repetitions" in done.text


def test_kill_9_leaves_latest_alone_and_resume_finishes() -> None:
    before, works = latest(), work_dirs()
    short = ("--suites", "cs-mlkem*-aesgcm-mldsa*", "--reps", "1", "--session-s", "3")
    controller = subprocess.Popen(
        ["./pqlab", "run", "smoke", *short, *BUSY_OK],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    sealed_cells: list[Path] = []
    while time.monotonic() < deadline and not sealed_cells:
        time.sleep(0.2)
        for run_id in work_dirs() - works:
            sealed_cells = list(
                (ROOT / "results" / ".work" / run_id / "data" / "cells").glob("*/record.json")
            )
    assert sealed_cells, "no cell finished before the kill"
    os.killpg(controller.pid, signal.SIGKILL)
    controller.wait(timeout=10)
    assert latest() == before
    kept = {p: p.read_bytes() for p in sealed_cells}

    bundle = measured(pqlab("resume", "--json", *BUSY_OK, timeout_s=300))
    records = list((bundle / "data" / "cells").glob("*/record.json"))
    assert len(records) == 3
    for path, content in kept.items():
        assert (bundle / "data" / "cells" / path.parent.name / "record.json").read_bytes() == content
    assert pqlab("verify", str(bundle)).code == 0


def test_wrong_key_says_make_keys(tmp_path: Path) -> None:
    """Another lab's controller certificate is refused by the agents, and the message says what to do."""
    stranger = tmp_path / "keys"
    image = json.loads(docker("inspect", container("gcs")))[0]["Config"]["Image"]
    docker(
        "run",
        "--rm",
        "--network",
        "none",
        "--user",
        f"{os.getuid()}:{os.getgid()}",
        "-v",
        f"{tmp_path}:{tmp_path}",
        "--entrypoint",
        "python3",
        image,
        "-m",
        "pqtunnel",
        "keys",
        "--out",
        str(stranger),
        timeout_s=120,
    )
    done = pqlab(*ONE, "--reps", "1", "--keys", str(stranger), timeout_s=60)
    assert done.code == 4, done.text
    assert "make keys" in done.text


def test_disk_full_keeps_the_work_and_says_so(tmp_path: Path) -> None:
    """A size-limited tmpfs of the test's own stands in for a full disk; the host's disk is never filled."""
    if os.geteuid() != 0:
        pytest.skip("skipped: mounting a small tmpfs needs root")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "pqlab-test", str(small)], check=True)
    try:
        before = latest()
        done = pqlab(*ONE, "--reps", "1", "--out", str(small), timeout_s=120)
        assert done.code == 4, done.text[-2000:]
        assert "space" in done.text.lower()
        assert latest() == before
        assert not list(small.glob("2*"))
    finally:
        subprocess.run(["umount", str(small)], check=True)
    shutil.rmtree(small)
