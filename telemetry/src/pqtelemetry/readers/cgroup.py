"""CPU time of the container this process runs in, on cgroup v1 (cpuacct) and v2 (cpu.stat) hosts.

The kernel's cgroup-v1/cpuacct and cgroup-v2 documents define the files. Which directory is ours follows
from /proc/self/mountinfo (where a hierarchy is mounted, and which part of it) and /proc/self/cgroup (our
place in it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.line import FieldValue, Sample
from pqtelemetry.procfile import ProcFile, read_text
from pqtelemetry.readers.base import Instant, Missing, Rate, Reader


@dataclass(frozen=True)
class _Mount:
    root: str
    point: str
    version: int


def _mounts(mountinfo: str) -> list[_Mount]:
    """cgroup mounts that can account CPU: v2, and v1 with the cpuacct controller (proc(5), mountinfo)."""
    found: list[_Mount] = []
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        columns, kind = left.split(), right.split()
        if len(columns) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            found.append(_Mount(columns[3], columns[4], 2))
        elif kind[0] == "cgroup" and "cpuacct" in kind[2].split(","):
            found.append(_Mount(columns[3], columns[4], 1))
    return found


def _place(cgroup: str, version: int) -> str | None:
    """Our path in the hierarchy: `0::/path` on v2, the cpuacct line on v1."""
    for line in cgroup.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (version == 2 and number == "0" and not controllers) or (
            version == 1 and "cpuacct" in controllers.split(",")
        ):
            return path
    return None


def _below(place: str, root: str) -> str:
    """Our path relative to the mount: a container sees its own group as the root of the mount."""
    if root == "/":
        return place.lstrip("/")
    if place == root or place.startswith(root + "/"):
        return place[len(root) :].lstrip("/")
    # A private cgroup namespace: the path is already relative to what is mounted.
    return ""


def _is_root_group(folder: Path, version: int) -> bool:
    """The root group is the whole machine: v1 has release_agent only there, v2 cgroup.type elsewhere."""
    return (folder / "release_agent").exists() if version == 1 else not (folder / "cgroup.type").exists()


def find_container(root: Path) -> Reader:
    """The reader for this host, or a `Missing` that says why there is none."""
    mountinfo = read_text(root / "proc/self/mountinfo")
    cgroup = read_text(root / "proc/self/cgroup")
    if mountinfo is None or cgroup is None:
        return Missing("container", "/proc/self/mountinfo or /proc/self/cgroup cannot be read")
    reason = "no cgroup hierarchy that accounts CPU time is mounted"
    for mount in sorted(_mounts(mountinfo), key=lambda mount: mount.version):
        place = _place(cgroup, mount.version)
        if place is None:
            continue
        folder = root / mount.point.lstrip("/") / _below(place, mount.root)
        name = "cpuacct.usage" if mount.version == 1 else "cpu.stat"
        if not (folder / name).exists():
            reason = f"no {name} in {mount.point} (cgroup v{mount.version})"
            continue
        if _is_root_group(folder, mount.version):
            reason = f"the process is in the root cgroup (v{mount.version}): that is the whole machine"
            continue
        return ContainerCpu(folder / name, mount.version)
    return Missing("container", reason)


class ContainerCpu:
    """`pq_cpu` container_pct (of one core) and container_cpu_ns."""

    name = "container"
    period_s = 0.0

    def __init__(self, path: Path, version: int) -> None:
        self.version = version
        self._file = ProcFile(path)
        self._rate = Rate()

    def _usage_ns(self) -> int:
        data = self._file.read()
        if self.version == 1:
            return int(data)
        for line in data.splitlines():
            key, _, value = line.partition(b" ")
            if key == b"usage_usec":
                return int(value) * 1000
        raise SensorUnavailable(f"{self._file.path} has no usage_usec")

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample; the share is absent in the first and after a gap."""
        try:
            usage_ns = self._usage_ns()
        except SensorUnavailable:
            self._rate.reset()
            raise
        fields: dict[str, FieldValue] = {"container_cpu_ns": usage_ns}
        percent = self._rate.percent(usage_ns, now.monotonic_ns)
        if percent is not None:
            fields["container_pct"] = percent
        return [Sample("pq_cpu", fields)]
