"""docs/TELEMETRY.md names every series and field that the sampler can write."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fakehost import STAT_LATER, FakeHost

from pqtelemetry.host import find_readers
from pqtelemetry.readers.base import Instant

DOCS = Path(__file__).resolve().parents[2] / "docs" / "TELEMETRY.md"
EPOCH_NS = 1_700_000_000_000_000_000


@pytest.mark.linux("reads made-up files of /proc")
@pytest.mark.skipif(not DOCS.exists(), reason="the package is tested without the repository around it")
def test_every_series_and_field_is_documented(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.cgroup_v2(1)
    host.write("sys/class/thermal/thermal_zone0/temp", "40000\n")
    host.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1500000\n")
    host.write("sys/devices/platform/soc/soc:firmware/get_throttled", "0\n")
    counters = {"t_ns": EPOCH_NS, "state": "idle", "cell_id": "ab", "counters": {}}
    path = host.write("counters.json", json.dumps(counters))
    pid = os.getpid()
    host.process(pid)
    readers = find_readers(host.root, pid, path, "synthetic", 1)
    for reader in readers:
        reader.read(Instant(0, 0, EPOCH_NS))
    host.write("proc/stat", STAT_LATER)
    text = DOCS.read_text(encoding="utf-8")
    seen: set[str] = set()
    for reader in readers:
        for sample in reader.read(Instant(1, 100_000_000, EPOCH_NS + 100_000_000)):
            seen.add(sample.measurement)
            for name in (sample.measurement, *sample.fields, *(key for key, _ in sample.tags)):
                assert f"`{name}`" in text, f"{name} of {sample.measurement} is not in docs/TELEMETRY.md"
    assert len(seen) == 12, seen
