"""Facts about this host that do not change while it runs; unknown is None, never a guess."""

from __future__ import annotations

import mmap
import os
import platform
import sys
from pathlib import Path

from pqtelemetry.procfile import read_text
from pqtelemetry.readers.base import Reader
from pqtelemetry.readers.cgroup import find_container
from pqtelemetry.readers.net import InterfaceDrops, Interfaces, Udp
from pqtelemetry.readers.power import find_power
from pqtelemetry.readers.pressure import find_pressure
from pqtelemetry.readers.process import OwnCpu, Process
from pqtelemetry.readers.runqueue import find_runqueue
from pqtelemetry.readers.system import Cores, LoadAverage, Memory, SystemCpu, tick_ms
from pqtelemetry.readers.thermal import find_frequency, find_temperatures, find_throttle
from pqtelemetry.readers.tunnel import TunnelCounters

# The CPU features that decide which AEAD is fast, x86 and Arm names.
_FEATURES = ("aes", "pclmulqdq", "avx2", "vaes", "sha_ni", "bmi2", "pmull", "sha2", "sha512", "asimd")

# The kernel's device tree, first where a container is shown parts of it: engines mask /sys/firmware.
_DEVICE_TREES = ("host/device-tree", "proc/device-tree", "sys/firmware/devicetree/base")


def find_readers(
    root: Path,
    pid: int | None,
    counters: Path | None,
    power: str,
    seed: int,
    power_settings: Path | None = None,
    power_raw: Path | None = None,
) -> list[Reader]:
    """All readers for the host below `root`; without a pid or a counter file those two are left out. Another
    root than `/` holds a Linux host's files, wherever they are read."""
    if sys.platform == "win32" and root == Path("/"):
        from pqtelemetry import winhost

        own: list[Reader] = [OwnCpu()]
        if counters is not None:
            own.append(TunnelCounters(counters))
        own += find_power(power, seed, root, power_settings, power_raw)
        return winhost.find_readers(pid, counters) + own
    readers: list[Reader] = [SystemCpu(root), find_pressure(root)]
    if pid is not None:
        readers += [Process(root, pid), find_runqueue(root, pid)]
    readers += [find_container(root), OwnCpu(), Memory(root), Udp(root), InterfaceDrops(root)]
    if counters is not None:
        readers.append(TunnelCounters(counters))
    readers += find_temperatures(root)
    readers += find_power(power, seed, root, power_settings, power_raw)
    readers += [Cores(root), Interfaces(root), LoadAverage(root), find_frequency(root), find_throttle(root)]
    return readers


def _cpuinfo(root: Path) -> tuple[str | None, list[str], int | None]:
    text = read_text(root / "proc/cpuinfo") or ""
    rows: dict[str, str] = {}
    processors = 0
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            rows.setdefault(key.strip(), value.strip())
            processors += key.strip() == "processor"
    flags = set((rows.get("flags") or rows.get("Features") or "").split())
    model = rows.get("model name") or rows.get("Model")
    return model, [feature for feature in _FEATURES if feature in flags], processors or None


def board_revision(root: Path) -> str | None:
    """Board revision from the device tree (Raspberry Pi: 8 hex digits), None where there is none."""
    for base in _DEVICE_TREES:
        path = root / base / "system/linux,revision"
        try:
            return path.read_bytes().hex() or None
        except OSError:
            continue
    return None


def _board_model(root: Path) -> str | None:
    models = (read_text(root / base / "model") for base in _DEVICE_TREES)
    return next((model for model in models if model is not None), None)


def _in_container(root: Path) -> bool:
    if (root / ".dockerenv").exists() or (root / "run/.containerenv").exists():
        return True
    # systemd's and LXC's way to say so to their own init.
    environ = read_text(root / "proc/1/environ") or ""
    return "container=" in environ


def host_facts(root: Path) -> dict[str, object]:
    """Machine, CPU, kernel and identity as JSON-ready values."""
    if sys.platform == "win32" and root == Path("/"):
        from pqtelemetry import winhost

        return winhost.host_facts()
    model, features, processors = _cpuinfo(root)
    release = read_text(root / "proc/sys/kernel/osrelease")
    return {
        "os": "linux",
        "machine": platform.machine(),
        "cpu_model": model,
        "cpu_count": processors or os.cpu_count(),
        "cpu_features": features,
        "kernel": release or platform.release(),
        "hostname": read_text(root / "proc/sys/kernel/hostname") or platform.node(),
        "board_model": _board_model(root),
        "board_revision": board_revision(root),
        "boot_id": read_text(root / "proc/sys/kernel/random/boot_id"),
        "in_container": _in_container(root),
        "clock_tick_ms": tick_ms(),
        "page_bytes": mmap.PAGESIZE,
    }
