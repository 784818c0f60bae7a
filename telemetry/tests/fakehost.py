# ruff: noqa: E501 - captured files keep their width
"""Makes /proc and /sys of a host below a folder, from texts captured on real machines."""

from __future__ import annotations

from pathlib import Path

STAT = """cpu  100 10 50 800 20 0 5 15 0 0
cpu0 50 5 25 400 10 0 3 7 0 0
cpu1 50 5 25 400 10 0 2 8 0 0
intr 1 2 3
ctxt 77
"""
STAT_LATER = """cpu  130 10 60 830 20 0 5 25 0 0
cpu0 80 5 35 400 10 0 3 7 0 0
cpu1 50 5 25 430 10 0 2 18 0 0
"""
MEMINFO = (
    "MemTotal:       24684812 kB\nMemFree:        20000000 kB\nMemAvailable:   23000000 kB\nBuffers: 1 kB\n"
)
SNMP = """Ip: Forwarding DefaultTTL InReceives
Ip: 1 64 4000
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 400 3 7 410 6 0 1 0 0
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
UdpLite: 0 0 0 0 0 0 0 0 0
"""
NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  111111    99    1    2    0     0          0         0   111111    99    3    4    0     0       0          0
  eth0: 5000      50    0    5    0     0          0         0     6000      60    0    1    0     0       0          0
  eth1: 7000      70    2    6    0     0          0         0     8000      80    4    2    0     0       0          0
"""
PID_STAT = (
    "{pid} (python3 (x) y) S 1 42 42 0 -1 4194560 2000 0 0 0 37 12 0 0 20 0 {threads} 0 {start} 30000000 {rss} "
    "18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n"
)

# A container on a cgroup v1 host: the mount shows the container's own part of each hierarchy.
V1_CGROUP = (
    "9:name=systemd:/docker/abc\n3:cpuset:/docker/abc\n2:cpuacct:/docker/abc\n1:cpu:/docker/abc\n0::/\n"
)
V1_MOUNTINFO = (
    "700 690 0:30 /docker/abc /sys/fs/cgroup/cpu ro,nosuid - cgroup cgroup rw,cpu\n"
    "701 690 0:31 /docker/abc /sys/fs/cgroup/cpuacct ro,nosuid master:5 - cgroup cgroup rw,cpuacct\n"
    "702 690 0:32 / /proc rw - proc proc rw\n"
)
# A container on a cgroup v2 host: a private namespace, so that its own group looks like the root.
V2_CGROUP = "0::/\n"
V2_MOUNTINFO = (
    "800 790 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate\n"
)
# A service of systemd on a cgroup v2 host: not a container, but a group of its own.
V2_SERVICE_CGROUP = "0::/system.slice/pqtunnel-drone.service\n"


class FakeHost:
    """A root folder whose files tests may change between two readings."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/stat", STAT)
        self.write("proc/meminfo", MEMINFO)
        self.write("proc/loadavg", "0.50 0.40 0.30 1/200 4242\n")
        self.write(
            "proc/pressure/cpu",
            "some avg10=1.00 avg60=0.50 avg300=0.10 total=123456\nfull avg10=0.00 "
            "avg60=0.00 avg300=0.00 total=0\n",
        )
        self.write("proc/self/net/snmp", SNMP)
        self.write("proc/self/net/dev", NET_DEV)

    def write(self, path: str, text: str) -> Path:
        """Write a file in place (descriptors that are open on it see the new content)."""
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text, encoding="utf-8")
        return full

    def process(self, pid: int, *, rss_pages: int = 1000, threads: int = 4, start: int = 555) -> None:
        """A /proc/<pid>/stat whose name holds blanks and brackets."""
        self.write(f"proc/{pid}/stat", PID_STAT.format(pid=pid, rss=rss_pages, threads=threads, start=start))
        self.write(f"proc/{pid}/schedstat", "5000 70 3\n")
        self.thread(pid, pid, 70)

    def thread(self, pid: int, tid: int, waited_ns: int) -> Path:
        """A thread that waited so long for a processor."""
        return self.write(f"proc/{pid}/task/{tid}/schedstat", f"5000 {waited_ns} 3\n")

    def cgroup_v1(self, usage_ns: int) -> None:
        """A container on a v1 host."""
        self.write("proc/self/cgroup", V1_CGROUP)
        self.write("proc/self/mountinfo", V1_MOUNTINFO)
        self.write("sys/fs/cgroup/cpuacct/cpuacct.usage", f"{usage_ns}\n")

    def cgroup_v2(self, usage_us: int) -> None:
        """A container on a v2 host."""
        self.write("proc/self/cgroup", V2_CGROUP)
        self.write("proc/self/mountinfo", V2_MOUNTINFO)
        self.write("sys/fs/cgroup/cgroup.type", "domain\n")
        self.write("sys/fs/cgroup/cpu.stat", f"usage_usec {usage_us}\nuser_usec 1\nsystem_usec 2\n")
