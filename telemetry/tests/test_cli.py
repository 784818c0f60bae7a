"""The command line as a process: runs, answers SIGTERM, explains bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fakehost import FakeHost

import waiting
from pqtelemetry.cli import main, parse_address
from pqtelemetry.errors import UsageError
from pqtelemetry.host import host_facts
from pqtelemetry.parse import parse_line
from waiting import LIMIT_S

SOURCE = os.pathsep.join(sys.path)


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pqtelemetry", *arguments],
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(sampler: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    def holds() -> bool:
        assert sampler.poll() is None, "the sampler ended by itself"
        return condition()

    waiting.wait_for(holds)


@pytest.mark.linux("sends SIGTERM")
def test_sigterm_ends_cleanly_with_everything_stored(tmp_path: Path) -> None:
    out = tmp_path / "telemetry.lp"
    sampler = start("sample", "--role", "drone", "--ring", "lab", "--out", str(out), "--rate-hz", "50")
    wait_for(sampler, lambda: out.exists() and out.stat().st_size > 2000)
    sampler.send_signal(signal.SIGTERM)
    stdout, stderr = sampler.communicate(timeout=LIMIT_S)
    assert (sampler.returncode, stderr) == (0, "")
    summary = json.loads(stdout)
    lines = out.read_text().splitlines()
    ticks = [line for line in lines if line.startswith("pq_sampler")]
    assert summary["stored_count"] == len(ticks) == parse_line(ticks[-1]).fields["stored_count"]
    assert summary["expected_count"] == summary["got_count"] + summary["late_count"] + summary["lost_count"]


def test_the_end_of_standard_input_ends_the_sampler_cleanly(tmp_path: Path) -> None:
    out = tmp_path / "telemetry.lp"
    line = ["sample", "--role", "gcs", "--ring", "lab", "--out", str(out), "--stop-with-stdin"]
    sampler = subprocess.Popen(
        [sys.executable, "-m", "pqtelemetry", *line],
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(sampler, lambda: out.exists() and out.stat().st_size > 2000)
    stdout, stderr = sampler.communicate(timeout=LIMIT_S)  # closes its standard input
    assert (sampler.returncode, stderr) == (0, "")
    ticks = [line for line in out.read_text(encoding="utf-8").splitlines() if line.startswith("pq_sampler")]
    assert json.loads(stdout)["stored_count"] == len(ticks) > 0


@pytest.mark.linux("sends SIGTERM")
def test_sigterm_does_not_wait_for_a_telegraf_that_is_away(tmp_path: Path) -> None:
    out = tmp_path / "telemetry.lp"
    sampler = start(
        *("sample", "--role", "drone", "--ring", "lab", "--out", str(out), "--rate-hz", "50"),
        *("--telegraf", "127.0.0.1:1"),
    )
    wait_for(sampler, lambda: out.exists() and out.stat().st_size > 2000)
    sampler.terminate()
    stdout, stderr = sampler.communicate(timeout=LIMIT_S)
    assert (sampler.returncode, stderr) == (0, "")
    summary = json.loads(stdout)
    assert summary["telegraf_sent_lines"] == 0
    assert summary["telegraf_dropped_lines"] == len(out.read_text().splitlines())


@pytest.mark.linux("reads the account of another process in /proc")
def test_the_watched_process_dies_and_the_sampler_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "telemetry.lp"
    watched = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    sampler = start(
        *("sample", "--role", "drone", "--ring", "lab", "--out", str(out), "--rate-hz", "50"),
        *("--pid", str(watched.pid)),
    )
    wait_for(sampler, lambda: out.exists() and out.read_text().count("process_pct") > 2)
    watched.kill()
    watched.wait()
    wait_for(sampler, lambda: "name=process,ring=lab available=false" in out.read_text())
    stored = out.stat().st_size
    wait_for(sampler, lambda: out.stat().st_size > stored + 2000)
    sampler.terminate()
    _, stderr = sampler.communicate(timeout=LIMIT_S)
    assert (sampler.returncode, stderr) == (0, "")
    points = [parse_line(line) for line in out.read_text().splitlines()]
    cpu = [point.fields for point in points if point.measurement == "pq_cpu"]
    assert "process_cpu_ns" in cpu[0]
    assert "process_cpu_ns" not in cpu[-1]
    assert "process_pct" not in cpu[-1]
    assert "system_busy_ms" in cpu[-1]
    process = [point.fields for point in points if ("name", "process") in point.tags]
    assert process[0] == {"available": True}
    assert process[-1]["available"] is False
    assert str(watched.pid) in str(process[-1]["reason"])


@pytest.mark.linux("watches a process without a parent in /proc")
def test_the_sampler_ends_with_its_parent(tmp_path: Path) -> None:
    out = tmp_path / "telemetry.lp"
    code = (
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-m', 'pqtelemetry', 'sample', '--role', 'x', '--ring', 'lab',"
        f" '--exit-with-parent', '--out', {str(out)!r}])\n"
        "import os, time\n"
        f"while not os.path.exists({str(out)!r}): time.sleep(0.01)\n"
        "print(p.pid)\n"
    )
    parent = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    pid = int(parent.stdout.split()[0])

    def ended() -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        return state == "Z"  # nobody here reaps orphans

    if not waiting.wait_until(ended):
        os.kill(pid, signal.SIGTERM)
        pytest.fail("the sampler outlived its parent")


@pytest.mark.linux("reads made-up files of /proc")
def test_facts_of_a_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = FakeHost(tmp_path)
    host.write("proc/cpuinfo", "processor : 0\nmodel name : Test CPU\nflags : fpu aes avx2\nprocessor : 1\n")
    host.write("proc/sys/kernel/osrelease", "6.1.0-test\n")
    host.write("proc/device-tree/system/linux,revision", "")
    (host.root / "proc/device-tree/system/linux,revision").write_bytes(bytes.fromhex("00c03115"))
    assert main(["facts", "--root", str(host.root)]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["host"]["cpu_model"] == "Test CPU"
    assert facts["host"]["cpu_count"] == 2
    assert facts["host"]["cpu_features"] == ["aes", "avx2"]
    assert facts["host"]["kernel"] == "6.1.0-test"
    assert facts["host"]["board_revision"] == "00c03115"
    assert facts["host"]["in_container"] is False
    sensors = {row["name"]: row for row in facts["sensors"]}
    assert {"cpu", "steal", "thermal", "power", "container", "udp"} <= sensors.keys()
    assert sensors["steal"] == {"name": "steal", "available": True, "reason": None}
    assert sensors["thermal"]["available"] is False
    assert sensors["thermal"]["reason"]
    assert sensors["power"]["available"] is False


@pytest.mark.parametrize("seen", ["host/device-tree", "proc/device-tree", "sys/firmware/devicetree/base"])
def test_the_board_is_known_wherever_its_device_tree_is_seen(tmp_path: Path, seen: str) -> None:
    """In a container the engine hides both of the kernel's own places."""
    host = FakeHost(tmp_path)
    assert host_facts(host.root)["board_revision"] is None
    assert host_facts(host.root)["board_model"] is None
    host.write(f"{seen}/model", "Raspberry Pi 5 Model B Rev 1.0\0")
    host.write(f"{seen}/system/linux,revision", "")
    (host.root / seen / "system/linux,revision").write_bytes(bytes.fromhex("00c04170"))
    facts = host_facts(host.root)
    assert (facts["board_model"], facts["board_revision"]) == ("Raspberry Pi 5 Model B Rev 1.0", "00c04170")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("none", None), ("telegraf:8094", ("telegraf", 8094)), ("[::1]:80", ("::1", 80))],
)
def test_addresses(text: str, expected: tuple[str, int] | None) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["telegraf", ":8094", "telegraf:", "telegraf:0", "telegraf:70000", "a:b"])
def test_bad_addresses(text: str) -> None:
    with pytest.raises(UsageError):
        parse_address(text)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--rate-hz", "0"], 2, "rate-hz"),
        (["--max-bytes", "5"], 2, "max-bytes"),
        (["--telegraf", "nowhere"], 2, "host:port"),
        (["--out", "/nonexistent/folder/t.lp"], 4, "next: "),
    ],
)
def test_bad_input_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    default = ["sample", "--role", "x", "--ring", "lab", "--out", str(tmp_path / "t.lp")]
    assert main([*default, *arguments]) == code
    assert says in capsys.readouterr().err


def test_a_power_sensor_nobody_knows_is_a_usage_error() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["facts", "--power", "ina999"])
    assert caught.value.code == 2
