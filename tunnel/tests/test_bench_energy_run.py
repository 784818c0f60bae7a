"""Energy mode with the real sampler process and the model it was asked for; refusals before any work."""

from __future__ import annotations

import io
import json
import os
import shutil
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
@pytest.mark.linux("the power sampler runs on Linux alone")
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


def given(tmp_path: Path, free: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    usage = shutil._ntuple_diskusage(10**12, 10**12 - free, free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    return powerlog.settings("model", None, tmp_path)


def test_the_bound_of_the_samples_fits_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_s = energy.length_s(100, energy.Plan())
    assert plan_s == pytest.approx(100 * 2 * 5 * (1.5 * 1.15 * 1.5 + 1.5 + 0.25))
    path = given(tmp_path, 10**12, monkeypatch)
    bound = powerlog.bound_bytes(path, tmp_path, plan_s)
    assert bound * 7 // 8 >= plan_s * 1000 * 24, "seven of eight segments hold the plan"
    assert bound > 128 << 20, "more than the sampler's own bound, which is for an hour"
    path.write_text('{"sensor": "model", "rate_hz": 100}')
    assert powerlog.bound_bytes(path, tmp_path, plan_s) == pytest.approx(bound / 10, rel=1e-6)


def test_a_plan_without_room_is_refused_with_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = given(tmp_path, 50_000_000, monkeypatch)
    with pytest.raises(BenchError, match="about 60 min, 99 MB of samples at 1000 Hz, and 50 MB are free"):
        powerlog.bound_bytes(path, tmp_path, 3600.0)
    assert powerlog.bound_bytes(path, tmp_path, 600.0) == 45_000_000, "what is free bounds the spare"


@pytest.mark.native
@pytest.mark.linux("the power sampler runs on Linux alone")
def test_a_run_whose_samples_were_dropped_is_not_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(powerlog, "bound_bytes", lambda *_: 65_536)
    plan = energy.Plan(block_s=0.5, idle_s=0.5, blocks=2)
    result = energyrun.run(tmp_path, hashes(), plan, None, "model", None, Progress(io.StringIO()))
    assert result["sampler_lost_at_block"] is None
    assert result["samples_dropped"] > 0 and result["ok"] is False
