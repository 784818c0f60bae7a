"""Faults an agent may be asked for: bounded, told in the events, over when their time or their cell is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pqtunnel.agent.faults import Faults
from pqtunnel.agent.params import Params, ParamsError
from pqtunnel.agent.telemetry import Telemetry, TelemetryError
from pqtunnel.config import EndpointConfig
from pqtunnel.endpoint.endpoint import Endpoint
from waiting import wait_until

MS = 1_000_000


class Rows:
    """A cell's journal."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def event(self, kind: str, **details: Any) -> None:
        self.rows.append({"event": kind, **details})


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
def telemetry(tmp_path: Path) -> Iterator[Telemetry]:
    config = cast(EndpointConfig, SimpleNamespace(state_dir=tmp_path))
    telemetry = Telemetry(config, tmp_path / "counters.json", print)
    telemetry._child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    yield telemetry
    telemetry.close()
    assert telemetry._child.returncode is not None


@pytest.fixture
def faults(rows: Rows, telemetry: Telemetry) -> Faults:
    endpoint = cast(Endpoint, SimpleNamespace(work=SimpleNamespace(journal=rows)))
    return Faults(endpoint, telemetry)


def fire(faults: Faults, kind: str, **params: Any) -> dict[str, Any]:
    return faults.table()[kind](Params("event", params))


def state(telemetry: Telemetry) -> str:
    assert telemetry._child is not None
    text = Path(f"/proc/{telemetry._child.pid}/stat").read_text()
    return text.rpartition(")")[2].split()[0]


def stopped(telemetry: Telemetry) -> bool:
    return state(telemetry) == "T"


def went_on(telemetry: Telemetry) -> bool:
    """Was it stopped, and does it run again? The kernel remembers it, however late it is asked."""
    assert telemetry._child is not None
    return os.waitid(os.P_PID, telemetry._child.pid, os.WCONTINUED | os.WNOHANG | os.WNOWAIT) is not None


def test_stamps_within_the_fault_are_shifted_and_no_others(faults: Faults, rows: Rows) -> None:
    span = fire(faults, "clock_offset", offset_ms=250, for_s=1.0)
    start, end = span["start_ns"], span["end_ns"]
    assert end - start == 1000 * MS
    ledger = [
        f"tx,0,{i},64,{t},{t + 1000},traffic" for i, t in enumerate((start - 5000, start, end - 2000, end))
    ]
    out = [
        line.split(",")
        for line in faults.shifted(
            "ledger", ["direction,epoch,sequence,size_bytes,t_in_ns,t_out_ns,window", *ledger]
        )[1:]
    ]
    assert [int(row[4]) for row in out] == [start - 5000, start + 250 * MS, end - 2000 + 250 * MS, end]
    event = json.dumps({"event": "gate_close", "t_ns": start + 7, "mono_ns": 5})
    assert json.loads(faults.shifted("events", [event])[0]) == {
        "event": "gate_close",
        "t_ns": start + 7 + 250 * MS,
        "mono_ns": 5,
    }
    own = json.dumps({"event": "clock_offset", "t_ns": start + 7})
    assert json.loads(faults.shifted("events", [own])[0])["t_ns"] == start + 7
    assert faults.shifted("log", ["as it is"]) == ["as it is"]
    assert rows.rows[0]["event"] == "clock_offset"


def test_the_next_cell_knows_nothing_of_it(faults: Faults) -> None:
    start = fire(faults, "clock_offset", offset_ms=-1000, for_s=60)["start_ns"]
    faults.end()
    later = time.time_ns() + MS
    assert faults.shift(later) == later
    assert faults.shift(start) == start - 1000 * MS
    faults.forget()
    assert faults.shift(start) == start


def test_two_offsets_at_once_are_refused(faults: Faults) -> None:
    fire(faults, "clock_offset", offset_ms=1, for_s=60)
    with pytest.raises(ParamsError, match="another"):
        fire(faults, "clock_offset", offset_ms=1, for_s=60)


@pytest.mark.linux("reads its sampler's state in /proc")
@pytest.mark.parametrize("params", [{}, {"for_s": 1e9}, {"for_s": -1}, {"for_s": 1, "surprise": 1}])
def test_a_stall_without_a_bound_is_refused(
    faults: Faults, telemetry: Telemetry, params: dict[str, Any]
) -> None:
    with pytest.raises(ParamsError):
        fire(faults, "sensor_stall", **params)
    assert state(telemetry) != "T"


@pytest.mark.linux("stops a process by SIGSTOP")
def test_a_stall_ends_by_itself(faults: Faults, telemetry: Telemetry, rows: Rows) -> None:
    fire(faults, "sensor_stall", for_s=0.3)
    assert wait_until(lambda: went_on(telemetry))
    assert not stopped(telemetry)
    assert [row["event"] for row in rows.rows] == ["sensor_stall", "sensor_stall_end"]


@pytest.mark.linux("stops a process by SIGSTOP")
def test_a_stall_ends_with_its_cell(faults: Faults, telemetry: Telemetry) -> None:
    fire(faults, "sensor_stall", for_s=3600)
    assert wait_until(lambda: stopped(telemetry))
    faults.end()
    assert wait_until(lambda: not stopped(telemetry))


@pytest.mark.linux("stops a process by SIGSTOP")
def test_a_stalled_sampler_does_not_keep_the_agent_from_ending(faults: Faults, telemetry: Telemetry) -> None:
    fire(faults, "sensor_stall", for_s=3600)
    assert wait_until(lambda: stopped(telemetry))
    telemetry.close()
    assert telemetry._child is not None
    assert telemetry._child.returncode == -signal.SIGTERM, "it was not waited for and then killed"


def test_no_sampler_no_stall(faults: Faults, telemetry: Telemetry) -> None:
    telemetry.close()
    why = "cannot stop a process" if sys.platform == "win32" else "no sampler"
    with pytest.raises(TelemetryError, match=why):
        fire(faults, "sensor_stall", for_s=1)
