"""Readers of Windows, fed with made answers of the system: right arithmetic, and a reason for every gap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pqtelemetry.collector import Collector
from pqtelemetry.errors import SensorUnavailable, UsageError
from pqtelemetry.power.verbs import linux_only
from pqtelemetry.readers import windows
from pqtelemetry.readers.base import Instant

EPOCH_NS = 1_700_000_000_000_000_000


def at(tick: int) -> Instant:
    return Instant(tick, tick * 100_000_000, EPOCH_NS + tick * 100_000_000)


def refused() -> list[tuple[str, dict[str, int]]]:
    raise OSError(5, "Access is denied")


def test_cpu_shares_leave_idle_out_and_say_nothing_of_steal() -> None:
    # 100 ns units; kernel holds idle: of 2 s passed 1.5 s were idle.
    told = iter([(10_000_000, 20_000_000, 10_000_000), (25_000_000, 37_000_000, 13_000_000)])
    reader = windows.WindowsCpu(lambda: next(told))
    (first,) = reader.read(at(0))
    assert first.fields == {"system_busy_ms": 2000, "system_total_ms": 3000}
    (second,) = reader.read(at(10))
    assert second.fields == {"system_pct": 25.0, "system_busy_ms": 2500, "system_total_ms": 5000}


def test_what_windows_does_not_tell_is_a_reason_and_never_a_number() -> None:
    collector = Collector(windows.absent_sensors(), (), 10.0)
    samples = collector.collect(at(0))
    assert {sample.measurement for sample in samples} == {"pq_sensor"}
    told = {dict(sample.tags)["name"]: sample.fields for sample in samples}
    assert {"steal", "load", "container", "thermal", "frequency"} <= told.keys()
    assert all(fields["available"] is False and fields["reason"] for fields in told.values())


def write_word(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(fields), encoding="utf-8")


def test_a_process_tells_its_own_cpu_time(tmp_path: Path) -> None:
    path = tmp_path / "counters.json"
    reader = windows.ToldProcess(7, path, lambda pid: 1000 + pid)
    write_word(path, pid=7, t_ns=EPOCH_NS, process_cpu_ns=5_000_000)
    cpu, memory = reader.read(at(0))
    assert cpu.fields == {"process_cpu_ns": 5_000_000} and memory.fields == {"rss_bytes": 1007}
    # The share is of the time between its two words, not between two looks at them.
    write_word(path, pid=7, t_ns=EPOCH_NS + 200_000_000, process_cpu_ns=55_000_000)
    cpu, _ = reader.read(at(3))
    assert cpu.fields == {"process_cpu_ns": 55_000_000, "process_pct": 25.0}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"pid": 8, "t_ns": EPOCH_NS, "process_cpu_ns": 1}, "not of process 7"),
        ({"pid": 7, "t_ns": EPOCH_NS}, "does not tell"),
        ({"pid": 7, "t_ns": EPOCH_NS, "process_cpu_ns": "1"}, "does not tell"),
        ({"pid": 7, "t_ns": EPOCH_NS - 2_000_000_000, "process_cpu_ns": 1}, "stalls"),
    ],
)
def test_no_word_of_that_process_is_a_gap(tmp_path: Path, fields: dict[str, object], reason: str) -> None:
    path = tmp_path / "counters.json"
    write_word(path, **fields)
    with pytest.raises(SensorUnavailable, match=reason):
        windows.ToldProcess(7, path, lambda pid: 1).read(at(0))


def test_a_process_without_a_counters_file_is_a_gap(tmp_path: Path) -> None:
    with pytest.raises(SensorUnavailable, match=r"counters\.json"):
        windows.ToldProcess(7, tmp_path / "counters.json", lambda pid: 1).read(at(0))


def test_interface_drops_are_summed_and_a_refusal_is_a_reason() -> None:
    rows = [("Ethernet", {"rx_dropped": 3, "tx_dropped": 1}), ("WLAN", {"rx_dropped": 4, "tx_dropped": 0})]
    (sample,) = windows.WindowsInterfaceDrops(lambda: rows).read(at(0))
    assert sample.fields == {"if_rx_dropped": 7, "if_tx_dropped": 1}
    assert [dict(one.tags)["interface"] for one in windows.WindowsInterfaces(lambda: rows).read(at(0))] == [
        "Ethernet",
        "WLAN",
    ]
    with pytest.raises(SensorUnavailable, match="Access is denied"):
        windows.WindowsInterfaces(refused).read(at(0))
    with pytest.raises(SensorUnavailable, match="no hardware"):
        windows.WindowsInterfaceDrops(list).read(at(0))


def test_a_fast_power_verb_off_linux_is_one_sentence() -> None:
    class Args:
        verb = "power-cost"

    with pytest.raises(UsageError, match="power-cost runs on Linux alone"):
        linux_only(lambda args: 0, platform="win32")(Args())
    assert linux_only(lambda args: 0, platform="linux")(Args()) == 0
