"""Energy mode with the real sampler process and the model it was asked for; refusals before any work."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest

from pqtunnel.bench import energy, energyrun, powerlog
from pqtunnel.bench.ladder import ladder_benchmarks
from pqtunnel.bench.operations import Benchmark
from pqtunnel.bench.progress import Progress
from pqtunnel.bench.rawfiles import BenchError

SHORT = energy.Plan(block_s=0.05, idle_s=0.05, blocks=1)


@pytest.fixture(autouse=True)
def sampler_finds_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


def hashes() -> list[Benchmark]:
    return [one for one in ladder_benchmarks() if one.name == "SHA_256_32768B"]


@pytest.mark.native
def test_blocks_and_samples_lie_on_one_clock_and_name_the_model(tmp_path: Path) -> None:
    result = energyrun.run(tmp_path, hashes(), SHORT, None, "model", None, Progress(io.StringIO()))
    assert result["ok"] and result["sampler_lost_at_block"] is None
    assert result["accounting"]["stored_count"] > 0
    lines = [json.loads(line) for line in (tmp_path / "blocks.ndjson").read_text().splitlines()]
    assert lines[0]["sensor_class"] == "model" and len(lines) == 1 + 2 * 2 + 1
    header = json.loads((tmp_path / "power.bin").read_bytes().split(b"\n", 1)[0])
    assert header["sensor_class"] == "model" and "calibration" in header
    assert json.loads((tmp_path / "environment.json").read_text())["mode"] == "energy"
    with pytest.raises(BenchError, match="holds an energy run already"):
        energyrun.run(tmp_path, hashes(), SHORT, None, "model", None, Progress(io.StringIO()))


def test_no_sensor_is_ever_assumed(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="asked for by its name"):
        energyrun.run(tmp_path, hashes(), SHORT, None, None, None, Progress(io.StringIO()))
    assert not (tmp_path / "blocks.ndjson").exists()


def test_settings_of_another_sensor_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "p.json"
    source.write_text('{"sensor": "ina219", "shunt_ohm": 0.1}')
    with pytest.raises(BenchError, match="is for 'ina219', --power says 'model'"):
        powerlog.settings("model", source, tmp_path)
    path = powerlog.settings("ina219", source, tmp_path)
    assert json.loads(path.read_text()) == {"sensor": "ina219", "shunt_ohm": 0.1}
    source.write_text("[]")
    with pytest.raises(BenchError, match="cannot be used"):
        powerlog.settings("ina219", source, tmp_path)


@pytest.mark.native
def test_a_sensor_that_is_not_there_is_an_error_before_the_first_block(tmp_path: Path) -> None:
    source = tmp_path / "p.json"
    source.write_text('{"bus": 99}')
    with pytest.raises(BenchError, match="no power sensor"):
        energyrun.run(tmp_path / "o", hashes(), SHORT, None, "ina219", source, Progress(io.StringIO()))
    assert not (tmp_path / "o" / "blocks.ndjson").exists()
