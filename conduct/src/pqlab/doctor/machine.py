"""The machine that is measured on: Python, disk, memory, cores, quiet, steal, clocks, governor."""

from __future__ import annotations

import sys
from pathlib import Path

from pqlab.doctor.model import Reading, Requirement, Wish
from pqlab.doctor.system import System
from pqtunnel.quiet import LIMIT_NS, STEAL_LIMIT_PCT

GIB = 1024**3
DISK_NEED_BYTES, DISK_WANT_BYTES = 3 * GIB, 8 * GIB
MEMORY_NEED_BYTES, MEMORY_WANT_BYTES = 1 * GIB, 2 * GIB
STEP_WANT_MS = 5.0
SAMPLE_S = 1.0
# Reading these costs a trap or a slow bus access, far above what a span shall resolve.
_GOVERNORS = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
SLOW_CLOCKSOURCES = ("acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies")


def read_python(_system: System) -> Reading:
    """This interpreter."""
    return Reading(sys.version_info >= (3, 11), ".".join(str(part) for part in sys.version_info[:3]))


def _docker_folder(system: System) -> Path:
    result = system.command(["docker", "info", "--format", "{{.DockerRootDir}}"])
    folder = Path(result.stdout) if result.code == 0 and result.stdout else system.project
    return folder if folder.exists() else system.project


def read_disk(system: System) -> Reading:
    """Free space where results and images go, the smaller of both."""
    free = min(system.free_bytes(system.project), system.free_bytes(_docker_folder(system)))
    return Reading(free >= DISK_NEED_BYTES, f"{free / GIB:.1f} GiB free")


def read_disk_roomy(system: System) -> Reading:
    """The same against what images, build cache and a campaign take."""
    free = min(system.free_bytes(system.project), system.free_bytes(_docker_folder(system)))
    return Reading(free >= DISK_WANT_BYTES, f"{free / GIB:.1f} GiB free")


def _available_bytes(system: System) -> int:
    for line in system.text("proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise ValueError("/proc/meminfo has no MemAvailable")


def read_memory(system: System) -> Reading:
    """Memory that can be had without swapping."""
    free = _available_bytes(system)
    return Reading(free >= MEMORY_NEED_BYTES, f"{free / GIB:.1f} GiB available")


def read_memory_roomy(system: System) -> Reading:
    """The same against all services and an image build at once."""
    free = _available_bytes(system)
    return Reading(free >= MEMORY_WANT_BYTES, f"{free / GIB:.1f} GiB available")


def _core_count(system: System) -> int:
    return sum(
        line.startswith("cpu") and line[3:4].isdigit() for line in system.text("proc/stat").splitlines()
    )


def read_cores(system: System) -> Reading:
    """Online cores."""
    count = _core_count(system)
    return Reading(count >= 2, f"{count} cores")


def read_quiet(system: System) -> Reading:
    """What a thread waits for a processor now, by the rule of runs and records."""
    probe = system.probe()
    load = system.text("proc/loadavg").split()[0]
    return Reading(probe.quiet is not False, f"{probe.sentence} (load average {load})")


def _cpu_ticks(system: System) -> tuple[int, int]:
    """(steal, total) of the first line of /proc/stat."""
    columns = [int(column) for column in system.text("proc/stat").splitlines()[0].split()[1:9]]
    if len(columns) < 8:
        raise ValueError("this kernel reports no steal time")
    return columns[7], sum(columns)


def read_steal(system: System) -> Reading:
    """Share of the last second that the hypervisor gave to others."""
    steal, total = _cpu_ticks(system)
    system.sleep(SAMPLE_S)
    steal_later, total_later = _cpu_ticks(system)
    if total_later <= total:
        raise ValueError("/proc/stat stood still for a second")
    percent = 100.0 * (steal_later - steal) / (total_later - total)
    return Reading(percent <= STEAL_LIMIT_PCT, f"{percent:.1f} % over {SAMPLE_S:g} s")


def read_clocksource(system: System) -> Reading:
    """What the kernel reads the time from."""
    source = system.text("sys/devices/system/clocksource/clocksource0/current_clocksource").strip()
    return Reading(source not in SLOW_CLOCKSOURCES, source)


def read_clock_agreement(system: System) -> Reading:
    """Whether the wall clock and the monotonic clock agree over a short span: nobody steps the time."""
    real, mono = system.realtime_ns(), system.monotonic_ns()
    system.sleep(SAMPLE_S / 4)
    apart_ms = abs((system.realtime_ns() - real) - (system.monotonic_ns() - mono)) / 1e6
    return Reading(apart_ms <= STEP_WANT_MS, f"{apart_ms:.3f} ms apart over {SAMPLE_S / 4:g} s")


def read_governor(system: System) -> Reading:
    """Frequency governors of the cores."""
    paths = system.files(_GOVERNORS)
    if not paths:
        return Reading(True, "no cpufreq here: the frequency is the hypervisor's or the firmware's business")
    names = sorted({system.text(path).strip() for path in paths})
    return Reading(names == ["performance"], ", ".join(names))


def write_governor(system: System) -> list[Wish]:
    """`performance` on each core whose driver offers it."""
    wishes = []
    for path in system.files(_GOVERNORS):
        offered = path.replace("scaling_governor", "scaling_available_governors")
        if not system.exists(offered) or "performance" in system.text(offered).split():
            wishes.append(Wish(path, "performance"))
    return wishes


#: file, the value without turbo, the value with it
_TURBO = (
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "1", "0"),
    ("sys/devices/system/cpu/cpufreq/boost", "0", "1"),
)


def read_turbo(system: System) -> Reading:
    """Whether the clock may rise above what it can hold."""
    for path, steady, _ in _TURBO:
        if system.exists(path):
            found = system.text(path).strip()
            return Reading(found == steady, f"turbo is {'off' if found == steady else 'on'}")
    return Reading(True, "no turbo here")


def write_turbo(system: System) -> list[Wish]:
    """Turbo off, where there is a switch."""
    return [Wish(path, steady) for path, steady, _ in _TURBO if system.exists(path)][:1]


REQUIREMENTS = (
    Requirement("python", "need", "3.11 or newer", read_python, "make venv (installs one on Debian as root)"),
    Requirement(
        "disk", "need", f"{DISK_NEED_BYTES // GIB} GiB free", read_disk, "make clean; docker builder prune"
    ),
    Requirement(
        "disk room",
        "want",
        f"{DISK_WANT_BYTES // GIB} GiB free for images and a campaign",
        read_disk_roomy,
        "docker builder prune; remove old bundles of results/",
    ),
    Requirement(
        "memory", "need", f"{MEMORY_NEED_BYTES // GIB} GiB available", read_memory, "stop other programs"
    ),
    Requirement(
        "memory room", "want", f"{MEMORY_WANT_BYTES // GIB} GiB", read_memory_roomy, "stop other programs"
    ),
    Requirement("cores", "want", "2 or more", read_cores, "give the virtual machine a second core"),
    Requirement(
        "quiet",
        "want",
        f"a thread waits at most {LIMIT_NS / 1e6:g} ms for a processor to do half a millisecond of work",
        read_quiet,
        "let other work end; a run waits for that by itself (--settle-s)",
    ),
    Requirement(
        "steal",
        "want",
        f"at most {STEAL_LIMIT_PCT:g} %: above, CPU results are invalid",
        read_steal,
        "use a machine whose cores are not shared",
    ),
    Requirement(
        "clock source",
        "want",
        "one that is cheap to read (tsc, kvm-clock, arch_sys_counter)",
        read_clocksource,
        "boot with clocksource=tsc where the hardware allows it",
    ),
    Requirement(
        "clock steps",
        "want",
        f"wall and monotonic clock within {STEP_WANT_MS:g} ms",
        read_clock_agreement,
        "let chrony slew the clock instead of stepping it",
    ),
    Requirement(
        "governor",
        "want",
        "performance, so that the frequency does not follow the load",
        read_governor,
        "sudo ./pqlab tune (./pqlab untune gives it back)",
        write_governor,
    ),
    Requirement(
        "turbo",
        "note",
        "off: the first seconds of a load are not like the rest",
        read_turbo,
        "sudo ./pqlab tune",
        write_turbo,
    ),
)
