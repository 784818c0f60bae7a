"""Detectors beside the agent: found by their file, moved by signals, their cost read in their sleep."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint_kit import Lab

from pqtunnel.agent.detectors import FILE, SCHEMA, DetectorError, Detectors, process_cpu_ns
from pqtunnel.agent.params import ParamsError
from pqtunnel.rpc import RemoteError, fetch_all
from waiting import LIMIT_S, wait_for

#: works without a pause, and counts the signals that a detector hears
BUSY = """
import signal, sys
for number, name in ((signal.SIGUSR1, "forget"), (signal.SIGUSR2, "mark")):
    signal.signal(number, lambda *_, name=name: print(name, flush=True))
print("up", flush=True)
while True:
    sum(range(10_000))
"""


def started_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def folder(tmp_path: Path, busy: subprocess.Popen[str]) -> Path:
    write(tmp_path, pid=busy.pid, started_ticks=started_ticks(busy.pid))
    return tmp_path


def write(folder: Path, **changed: Any) -> None:
    (folder / "xgboost").mkdir(exist_ok=True)
    document = {"schema": SCHEMA, "model": "xgboost-5w", **changed}
    (folder / "xgboost" / FILE).write_text(json.dumps(document))


def ask(detectors: Detectors, action: str, name: str = "xgboost") -> dict[str, Any]:
    return detectors.handle({"name": name, "action": action})


@pytest.mark.linux("detectors run beside a drone, and are moved by signals")
def test_asleep_it_uses_nothing_and_awake_it_works(folder: Path) -> None:
    detectors = Detectors(folder)
    assert ask(detectors, "sleep") == {"asleep": True}
    before = ask(detectors, "usage")
    time.sleep(0.2)
    after = ask(detectors, "usage")
    assert (before["frozen"], after["frozen"]) == (True, True)
    assert after["cpu_ns"] == before["cpu_ns"] > 0
    assert after["t_ns"] - before["t_ns"] >= 0.2e9
    assert ask(detectors, "wake") == {"asleep": False}
    wait_for(lambda: ask(detectors, "usage")["cpu_ns"] != before["cpu_ns"])
    assert ask(detectors, "usage")["frozen"] is False


@pytest.mark.linux("detectors run beside a drone, and are moved by signals")
def test_its_account_is_the_kernels(folder: Path, busy: subprocess.Popen[str]) -> None:
    detectors = Detectors(folder)
    ask(detectors, "sleep")
    told = ask(detectors, "usage")
    fields = Path(f"/proc/{busy.pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    assert told["cpu_ns"] / 1e9 == pytest.approx(ticks / os.sysconf("SC_CLK_TCK"), abs=0.03)
    pages = int(Path(f"/proc/{busy.pid}/statm").read_text().split()[1])
    assert told["rss_bytes"] == pytest.approx(pages * os.sysconf("SC_PAGE_SIZE"), rel=0.2)
    with pytest.raises(OSError):
        process_cpu_ns(2**22 + 1)


@pytest.mark.linux("detectors run beside a drone, and are moved by signals")
def test_it_hears_forget_and_mark_once_it_is_awake(folder: Path, busy: subprocess.Popen[str]) -> None:
    detectors = Detectors(folder)
    ask(detectors, "sleep")
    ask(detectors, "wake")
    assert busy.stdout is not None
    for action in ("forget", "mark"):
        ask(detectors, action)
        assert busy.stdout.readline() == f"{action}\n"


@pytest.mark.linux("detectors run beside a drone, and are moved by signals")
def test_facts_are_what_it_says_itself(folder: Path) -> None:
    assert ask(Detectors(folder), "facts")["model"] == "xgboost-5w"


@pytest.mark.linux("detectors run beside a drone, and are moved by signals")
@pytest.mark.parametrize("name", ["../xgboost", "", "XGBOOST", "a/b", "."])
def test_a_name_is_no_path(folder: Path, name: str) -> None:
    with pytest.raises(ParamsError):
        ask(Detectors(folder), "usage", name)


@pytest.mark.linux("detectors run beside a drone, and are moved by signals")
def test_an_unknown_action_is_refused_with_the_known_ones(folder: Path) -> None:
    with pytest.raises(ParamsError) as caught:
        ask(Detectors(folder), "kill")
    assert "usage" in caught.value.hint


@pytest.mark.linux("detectors run beside a drone, and are moved by signals")
def test_one_that_is_not_there_is_told_with_the_next_step(folder: Path) -> None:
    with pytest.raises(DetectorError, match="does not run") as caught:
        ask(Detectors(folder), "wake", "tst")
    assert (caught.value.code, "pqlab_detectors" in caught.value.hint) == ("no_detector", True)
    with pytest.raises(DetectorError, match="PQ_VERDICTS"):
        ask(Detectors(None), "wake")


@pytest.mark.linux("detectors run beside a drone, and are moved by signals")
def test_a_number_that_was_given_again_is_left_alone(folder: Path, busy: subprocess.Popen[str]) -> None:
    """Its process has ended and another has its number: nobody sends that one a signal."""
    write(folder, pid=busy.pid, started_ticks=started_ticks(busy.pid) - 1)
    with pytest.raises(DetectorError, match="has ended"):
        ask(Detectors(folder), "sleep")
    assert Path(f"/proc/{busy.pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("T", "t")


@pytest.mark.parametrize(
    "document", [{"pid": 1, "started_ticks": 0}, {"pid": "x"}, {}, {"pid": 0, "started_ticks": 0}]
)
def test_a_file_that_makes_no_sense_moves_nothing(tmp_path: Path, document: dict[str, Any]) -> None:
    write(tmp_path, **document)
    with pytest.raises(DetectorError):
        ask(Detectors(tmp_path), "sleep")


@pytest.mark.linux("detectors run beside a drone, and are moved by signals")
def test_one_of_another_user_is_told(
    folder: Path, busy: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(pid: int, number: int) -> None:
        assert (pid, number) == (busy.pid, signal.SIGSTOP)
        raise PermissionError

    monkeypatch.setattr(os, "kill", kill)
    with pytest.raises(DetectorError) as caught:
        ask(Detectors(folder), "sleep")
    assert caught.value.code == "detector_not_ours"


# ---------------------------------------------------------------------- over the network


@pytest.mark.native
def test_an_agent_without_detectors_says_so(lab_pair: Lab) -> None:
    with pytest.raises(RemoteError) as caught:
        lab_pair.drone.call("detector", name="xgboost", action="usage")
    assert caught.value.code == "no_detector"


@pytest.mark.native
def test_the_canary_is_refused_by_its_own_end_and_accounted_for(lab_pair: Lab) -> None:
    lab_pair.prepare()
    lab_pair.handshakes()
    told = lab_pair.drone.call("event", cell_id="cell-1", kind="canary", rate_pps=500, for_s=0.5)
    drone, gcs = lab_pair.stop()
    assert told["ended"] == "deadline"
    assert 0 < told["sent_count"] <= 250
    assert sum(count for _, count in told["bins"]) == told["sent_count"]
    assert told["bins"][0][0] == told["t_on_ns"] // told["bin_ns"]
    assert told["bins"][-1][0] == told["t_off_ns"] // told["bin_ns"]
    assert drone["bad_header"] == told["sent_count"]
    assert gcs["bad_header"] == 0


@pytest.mark.native
def test_the_canary_ends_with_the_cell(lab_pair: Lab) -> None:
    lab_pair.prepare()
    with lab_pair.drone.client() as other:
        running = _in_thread(
            lambda: other.call("event", {"cell_id": "cell-1", "kind": "canary", "rate_pps": 100, "for_s": 10})
        )
        wait_for(
            lambda: any('"canary"' in line for line in fetch_all(lab_pair.drone.rpc, "cell-1", "events"))
        )
        lab_pair.stop()
        assert running()["ended"] == "cell", "not its own time"


@pytest.mark.native
@pytest.mark.parametrize("asked", [{"rate_pps": 2001, "for_s": 1}, {"rate_pps": 10, "for_s": 11}])
def test_the_canary_is_bounded(lab_pair: Lab, asked: dict[str, float]) -> None:
    lab_pair.prepare()
    with pytest.raises(RemoteError) as caught:
        lab_pair.drone.call("event", cell_id="cell-1", kind="canary", **asked)
    assert caught.value.code == "bad_params"


def _in_thread(call: Any) -> Any:
    """The call's result, by a function that waits for it."""
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1)
    future = pool.submit(call)
    pool.shutdown(wait=False)
    return lambda: future.result(LIMIT_S)
