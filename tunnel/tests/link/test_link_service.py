"""Files that make `pqlink` a service: the systemd unit, as systemd's own tool reads it, and the settings of
the Windows service host."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

_CRATE = Path(__file__).resolve().parents[2] / "link"
_SERVICE = _CRATE / "service"
UNIT = (_SERVICE / "pqlink@.service").read_text("utf-8")


def _analyze(folder: Path, *arguments: str) -> str:
    """What systemd-analyze says of the unit, with programs and a user that every system has."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not here")
    text = UNIT.replace("/usr/local/bin/pqlink", "/bin/true").replace("=pqlink\n", "=root\n")
    assert text.count("=root\n") == 2
    unit = folder / "pqlink@gcs.service"
    unit.write_text(text, "utf-8")
    done = subprocess.run(
        [tool, *arguments, str(unit)], capture_output=True, text=True, env={"SYSTEMD_LOG_TARGET": "console"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_systemd_reads_every_line_of_the_unit(tmp_path: Path) -> None:
    told = _analyze(tmp_path, "verify", "--man=no")
    assert "pqlink" not in told, told  # an unknown key is a line with the unit's name, and no failure


def test_the_unit_is_hardened(tmp_path: Path) -> None:
    told = _analyze(tmp_path, "security", "--offline=true", "--threshold=30", "--no-pager")
    exposure = re.search(r"Overall exposure level.*: ([0-9.]+)", told)
    assert exposure is not None and float(exposure[1]) < 3.0, told


def test_the_unit_gives_a_whole_fleet_its_descriptors() -> None:
    limit = re.search(r"^LimitNOFILE=([0-9]+)$", UNIT, re.MULTILINE)
    # A thousand drones, and two descriptors for each of 1,024 handshakes in progress.
    assert limit is not None and int(limit[1]) >= 1000 + 2 * 1024 + 64


def test_both_services_start_pqlink_as_it_wants_to_be() -> None:
    usage = (_CRATE / "src/main.rs").read_text("utf-8")
    command = next(line for line in UNIT.splitlines() if line.startswith("ExecStart="))
    assert command.split()[1:] == ["up", "/etc/pqlink/%i.toml"]
    settings = tomllib.loads((_SERVICE / "pqlink-station.toml").read_text("utf-8"))
    assert settings["arguments"][0] == "up" and settings["arguments"][2] == "--stop-with-stdin"
    assert '["up", file, "--stop-with-stdin"]' in usage
    assert set(settings) <= set(
        re.findall(r"pub (\w+):", (_CRATE.parents[1] / "station/src/config.rs").read_text("utf-8"))
    )
