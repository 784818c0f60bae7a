"""CPU time and memory of a container from its control group, on hosts of cgroup v1 and v2.

A frozen container's CPU time stands still, to the nanosecond: that is how a cell shows that no detector ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_V1_CPU = ("cpuacct", "cpu,cpuacct", "cpuacct,cpu")


@dataclass(frozen=True)
class GroupFiles:
    """Where one container's account stands. `version` 1 or 2."""

    cpu: Path
    memory: Path | None
    version: int


def group_files(pid: int, proc: Path = Path("/proc"), root: Path = ROOT) -> GroupFiles | None:
    """The files of the group that process `pid` is in; None where none can be read on this host."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    places: dict[str, str] = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        places.update(dict.fromkeys(controllers.split(","), path.lstrip("/")))
    for folder in _V1_CPU:
        if "cpuacct" in places:
            usage = root / folder / places["cpuacct"] / "cpuacct.usage"
            memory = root / "memory" / places.get("memory", "") / "memory.stat"
            if usage.is_file():
                return GroupFiles(usage, memory if memory.is_file() else None, 1)
    if places.get(""):
        group = root / places[""]
        if (group / "cpu.stat").is_file():
            memory = group / "memory.stat"
            return GroupFiles(group / "cpu.stat", memory if memory.is_file() else None, 2)
    return None


def cpu_ns(files: GroupFiles) -> int:
    """CPU time used so far. Raises OSError when the container is gone, ValueError for another file."""
    text = files.cpu.read_text(encoding="ascii")
    if files.version == 1:
        return int(text)
    return 1000 * _row(text, "usage_usec")


def throttled_ms(files: GroupFiles) -> float | None:
    """How long its processes were kept from running by the group's own limit, so far; None where the group
    does not say."""
    path, name, per_ms = files.cpu, "throttled_usec", 1e3
    if files.version == 1:
        # mounted apart from the account, or together with it
        mount = next(parent for parent in files.cpu.parents if parent.name in _V1_CPU)
        path, name, per_ms = files.cpu.with_name("cpu.stat"), "throttled_time", 1e6
        apart = mount.parent / "cpu" / files.cpu.parent.relative_to(mount) / "cpu.stat"
        path = apart if apart.is_file() else path
    try:
        return _row(path.read_text(encoding="ascii"), name) / per_ms
    except (OSError, ValueError):
        return None


def resident_bytes(files: GroupFiles) -> int | None:
    """Memory of its processes, files mapped among it, cached files not; None without that account."""
    if files.memory is None:
        return None
    text = files.memory.read_text(encoding="ascii")
    names = ("rss", "mapped_file") if files.version == 1 else ("anon", "file_mapped")
    return sum(_row(text, name) for name in names)


def _row(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    raise ValueError(f"no {name} in the group's account")
