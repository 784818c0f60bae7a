"""A detector that lives on its host: it says where it is, stands still, and works once it is woken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pqdetect.model import load
from pqdetect.service.resident import FILE, SCHEMA, code_sha256
from waiting import LIMIT_S, wait_for

MODELS = Path(__file__).resolve().parents[1] / "models"
MODEL = "threshold"
ENVIRONMENT = {**os.environ, "PQ_MODELS": str(MODELS), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable,
        "-m",
        "pqdetect",
        "serve",
        "--asleep",
        "--model",
        MODEL,
        "--name",
        "watch",
        "--feed",
        str(tmp_path),
        "--verdicts",
        str(tmp_path / "verdicts"),
    ]
    process = subprocess.Popen(command, env=ENVIRONMENT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_it_says_what_it_is_and_stands_still(service: subprocess.Popen[bytes], tmp_path: Path) -> None:
    wait_for(lambda: state(service.pid) == "T")
    said = json.loads((tmp_path / "verdicts" / FILE).read_text())
    loaded = load(str(MODELS / MODEL))
    assert (said["schema"], said["name"], said["pid"]) == (SCHEMA, "watch", service.pid)
    assert (said["model"], said["sha256"], said["card"]["sha256"]) == (MODEL, loaded.sha256, loaded.sha256)
    assert said["code_sha256"] == code_sha256()
    fields = Path(f"/proc/{service.pid}/stat").read_text().rpartition(")")[2].split()
    assert said["started_ticks"] == int(fields[19])
    assert (tmp_path / "verdicts" / "verdicts.ndjson").read_bytes() == b""


def test_woken_it_judges_and_ending_it_takes_its_file_along(
    service: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    verdicts = tmp_path / "verdicts" / "verdicts.ndjson"
    wait_for(lambda: state(service.pid) == "T")
    os.kill(service.pid, signal.SIGCONT)
    wait_for(lambda: verdicts.stat().st_size > 0)
    assert json.loads(verdicts.read_text().splitlines()[0])["state"] == "no_feed"
    os.kill(service.pid, signal.SIGTERM)
    assert service.wait(timeout=LIMIT_S) == 0
    assert not (tmp_path / "verdicts" / FILE).exists()


def test_without_being_asked_it_leaves_no_file_and_stays_awake(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pqdetect",
        "serve",
        "--model",
        MODEL,
        "--feed",
        str(tmp_path),
        "--verdicts",
        str(tmp_path / "verdicts"),
    ]
    process = subprocess.Popen(command, env=ENVIRONMENT)
    try:
        path = tmp_path / "verdicts" / "verdicts.ndjson"
        wait_for(lambda: path.is_file() and path.stat().st_size > 0)
        assert not (tmp_path / "verdicts" / FILE).exists()
    finally:
        process.terminate()
        process.wait(timeout=LIMIT_S)


def test_the_checksum_is_of_names_and_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pqdetect

    monkeypatch.setattr(pqdetect, "__file__", str(tmp_path / "__init__.py"))
    (tmp_path / "a.py").write_text("1")
    one = code_sha256()
    (tmp_path / "a.py").write_text("2")
    two = code_sha256()
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({one, two, code_sha256()}) == 3
