"""Readers on captured files: right numbers, and a reason instead of a number where there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fakehost import STAT_LATER, V2_SERVICE_CGROUP, FakeHost

from pqtelemetry.errors import SensorUnavailable, UsageError
from pqtelemetry.readers.base import Instant, Missing
from pqtelemetry.readers.cgroup import ContainerCpu, find_container
from pqtelemetry.readers.net import InterfaceDrops, Interfaces, Udp
from pqtelemetry.readers.power import find_power
from pqtelemetry.readers.process import Process, process_cpu_ns
from pqtelemetry.readers.system import Cores, LoadAverage, Memory, SystemCpu
from pqtelemetry.readers.thermal import find_frequency, find_temperatures, find_throttle


def at(tick: int) -> Instant:
    return Instant(tick, tick * 100_000_000, 1_700_000_000_000_000_000 + tick * 100_000_000)


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path)


def test_cpu_shares_come_from_two_readings(host: FakeHost) -> None:
    reader = SystemCpu(host.root)
    (first,) = reader.read(at(0))
    assert "system_pct" not in first.fields, "one reading has no rate"
    assert first.fields["system_total_ms"] == 1000 * 10
    host.write("proc/stat", STAT_LATER)
    (second,) = reader.read(at(1))
    # 80 ticks passed: user +30, system +10, idle +30, steal +10
    assert second.fields["system_pct"] == 50.0
    assert second.fields["steal_pct"] == 12.5
    assert second.fields["system_steal_ms"] == 250


def test_cores_apart(host: FakeHost) -> None:
    reader = Cores(host.root)
    assert list(reader.read(at(0))) == []
    host.write("proc/stat", STAT_LATER)
    rows = {sample.tags: sample.fields for sample in reader.read(at(10))}
    assert rows[(("cpu", "0"),)] == {"busy_pct": 100.0, "steal_pct": 0.0}
    assert rows[(("cpu", "1"),)] == {"busy_pct": 0.0, "steal_pct": 25.0}


def test_a_counter_that_runs_backwards_gives_no_rate(host: FakeHost) -> None:
    reader = SystemCpu(host.root)
    host.write("proc/stat", STAT_LATER)
    reader.read(at(0))
    host.write("proc/stat", "cpu  1 1 1 1 1 1 1 1 0 0\n")
    (sample,) = reader.read(at(1))
    assert "system_pct" not in sample.fields


@pytest.mark.parametrize("text", ["cpu 1 2 3\n", "intr 5\n", ""])
def test_cut_stat_is_unavailable(host: FakeHost, text: str) -> None:
    host.write("proc/stat", text)
    with pytest.raises(SensorUnavailable):
        SystemCpu(host.root).read(at(0))


def test_memory_and_load(host: FakeHost) -> None:
    assert Memory(host.root).read(at(0))[0].fields == {"available_bytes": 23_000_000 * 1024}
    assert LoadAverage(host.root).read(at(0))[0].fields == {"load1": 0.5, "load5": 0.4, "load15": 0.3}
    host.write("proc/meminfo", "MemTotal: 5 kB\n")
    with pytest.raises(SensorUnavailable, match="MemAvailable"):
        Memory(host.root).read(at(0))


@pytest.mark.linux("reads made-up files of /proc")
def test_process_rate_is_of_one_core(host: FakeHost) -> None:
    host.process(42)
    cpu_ns = iter([5_000_000_000, 5_150_000_000])
    reader = Process(host.root, 42, cpu_ns=lambda pid: next(cpu_ns))
    cpu, memory = reader.read(at(0))
    assert cpu.fields == {"process_cpu_ns": 5_000_000_000}
    rss_bytes = 1000 * os.sysconf("SC_PAGE_SIZE")
    assert memory.fields == {"rss_bytes": rss_bytes, "thread_count": 4}  # no fd folder: absent, not 0
    for name in ("0", "1", "7"):
        host.write(f"proc/42/fd/{name}", "")
    cpu, memory = reader.read(at(1))
    assert cpu.fields["process_pct"] == 150.0
    assert memory.fields["fd_count"] == 3


def test_a_dead_process_is_a_gap_with_a_reason_and_a_new_base_afterwards(host: FakeHost) -> None:
    host.process(42)
    alive = True

    def cpu_ns(pid: int) -> int:
        if not alive:
            raise ProcessLookupError(3, "No such process")
        return 1_000

    reader = Process(host.root, 42, cpu_ns=cpu_ns)
    reader.read(at(0))
    alive = False
    with pytest.raises(SensorUnavailable, match="process 42"):
        reader.read(at(1))
    alive = True
    cpu, _ = reader.read(at(2))
    assert "process_pct" not in cpu.fields, "the rate must not span the gap"


def test_a_pid_given_to_another_process_is_not_the_same_process(host: FakeHost) -> None:
    host.process(42)
    reader = Process(host.root, 42, cpu_ns=lambda pid: 1)
    reader.read(at(0))
    host.process(42, start=999)
    with pytest.raises(SensorUnavailable, match="another"):
        reader.read(at(1))


@pytest.mark.linux("forks")
def test_the_real_process_clock_and_its_end() -> None:
    pid = os.fork()
    if pid == 0:
        end = process_cpu_ns(os.getpid()) + 20_000_000
        while process_cpu_ns(os.getpid()) < end:
            pass
        os._exit(0)
    reader = Process(Path("/"), pid)
    reader.read(at(0))
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert process_cpu_ns(pid) >= 20_000_000
    with pytest.raises(SensorUnavailable, match="ended"):
        reader.read(at(1))
    os.waitpid(pid, 0)
    with pytest.raises(SensorUnavailable):
        reader.read(at(2))


def test_container_on_a_v1_host(host: FakeHost) -> None:
    host.cgroup_v1(1_000_000_000)
    reader = find_container(host.root)
    assert isinstance(reader, ContainerCpu)
    assert reader.version == 1
    assert reader.read(at(0))[0].fields == {"container_cpu_ns": 1_000_000_000}
    host.cgroup_v1(1_025_000_000)
    assert reader.read(at(1))[0].fields["container_pct"] == 25.0


def test_container_on_a_v2_host(host: FakeHost) -> None:
    host.cgroup_v2(2_000_000)
    reader = find_container(host.root)
    assert isinstance(reader, ContainerCpu)
    assert reader.version == 2
    reader.read(at(0))
    host.cgroup_v2(2_050_000)
    fields = reader.read(at(1))[0].fields
    assert fields == {"container_cpu_ns": 2_050_000_000, "container_pct": 50.0}


def test_service_on_a_v2_host_reads_its_own_group(host: FakeHost) -> None:
    host.cgroup_v2(7)
    host.write("proc/self/cgroup", V2_SERVICE_CGROUP)
    folder = "sys/fs/cgroup/system.slice/pqtunnel-drone.service"
    host.write(f"{folder}/cpu.stat", "usage_usec 9\n")
    host.write(f"{folder}/cgroup.type", "domain\n")
    assert find_container(host.root).read(at(0))[0].fields == {"container_cpu_ns": 9000}


def test_the_root_group_is_the_machine_and_no_container(host: FakeHost) -> None:
    host.cgroup_v1(5)
    host.write("sys/fs/cgroup/cpuacct/release_agent", "\n")
    reader = find_container(host.root)
    assert isinstance(reader, Missing)
    assert "root cgroup" in reader.reason
    host.cgroup_v2(5)
    (host.root / "sys/fs/cgroup/cgroup.type").unlink()
    assert isinstance(find_container(host.root), Missing)


def test_no_cgroup_at_all_says_so(host: FakeHost) -> None:
    reader = find_container(host.root)
    with pytest.raises(SensorUnavailable, match="cannot be read"):
        reader.read(at(0))


def test_udp_counters_by_name_not_by_place(host: FakeHost) -> None:
    assert Udp(host.root).read(at(0))[0].fields == {
        "udp_in_datagrams": 400,
        "udp_out_datagrams": 410,
        "udp_no_ports": 3,
        "udp_in_errors": 7,
        "udp_rcvbuf_errors": 6,
        "udp_sndbuf_errors": 0,
    }
    host.write("proc/self/net/snmp", "Ip: A\nIp: 1\nUdp: InErrors InDatagrams\nUdp: 1 2\n")
    assert Udp(host.root).read(at(0))[0].fields == {"udp_in_datagrams": 2, "udp_in_errors": 1}
    host.write("proc/self/net/snmp", "Ip: A\nIp: 1\n")
    with pytest.raises(SensorUnavailable, match="Udp"):
        Udp(host.root).read(at(0))


def test_interfaces_without_the_loopback(host: FakeHost) -> None:
    assert InterfaceDrops(host.root).read(at(0))[0].fields == {"if_rx_dropped": 11, "if_tx_dropped": 3}
    rows = {sample.tags[0][1]: sample.fields for sample in Interfaces(host.root).read(at(0))}
    assert rows.keys() == {"eth0", "eth1"}
    assert rows["eth1"] == {
        "rx_bytes": 7000,
        "rx_packets": 70,
        "rx_errors": 2,
        "rx_dropped": 6,
        "tx_bytes": 8000,
        "tx_packets": 80,
        "tx_errors": 4,
        "tx_dropped": 2,
    }


def test_temperatures_of_zones_and_hwmon(host: FakeHost) -> None:
    host.write("sys/class/thermal/thermal_zone0/temp", "48312\n")
    host.write("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n")
    host.write("sys/class/hwmon/hwmon1/name", "coretemp\n")
    host.write("sys/class/hwmon/hwmon1/temp1_input", "-5000\n")
    host.write("sys/class/hwmon/hwmon1/temp1_label", "Package id 0\n")
    rows = [reader.read(at(0))[0] for reader in find_temperatures(host.root)]
    assert [(row.tags, row.fields) for row in rows] == [
        ((("zone", "thermal_zone0-cpu-thermal"),), {"temperature_c": 48.312}),
        ((("zone", "hwmon1-coretemp-temp1-Package_id_0"),), {"temperature_c": -5.0}),
    ]


@pytest.mark.parametrize("text", ["", "N/A", "999999999"])
def test_a_zone_without_a_plausible_value_is_a_gap_not_a_zero(host: FakeHost, text: str) -> None:
    host.write("sys/class/thermal/thermal_zone0/temp", text)
    (reader,) = find_temperatures(host.root)
    with pytest.raises(SensorUnavailable):
        reader.read(at(0))


def test_what_the_host_does_not_have_is_missing_by_name(host: FakeHost) -> None:
    missing = [*find_temperatures(host.root), find_frequency(host.root), find_throttle(host.root)]
    missing += find_power("none", 1)
    assert [reader.name for reader in missing] == ["thermal", "frequency", "throttle", "power"]
    for reader in missing:
        with pytest.raises(SensorUnavailable) as caught:
            reader.read(at(0))
        assert len(str(caught.value)) > 10


@pytest.mark.parametrize(
    "device",
    [
        "soc/soc:firmware", "soc@107c000000/soc@107c000000:firmware", "axi/soc@107c000000:firmware",
        "soc@107c000000:firmware",
    ],
)  # fmt: skip
def test_frequency_and_throttle_of_a_pi(host: FakeHost, device: str) -> None:
    host.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1500000\n")
    host.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "600000\n")
    host.write(f"sys/devices/platform/{device}/get_throttled", "50005\n")
    rows = find_frequency(host.root).read(at(0))
    assert [row.fields["frequency_mhz"] for row in rows] == [1500.0, 600.0]
    assert find_throttle(host.root).read(at(0))[0].fields == {"flags": 0x50005}


def test_synthetic_power_is_deterministic_and_says_so() -> None:
    one, two, other = (find_power("synthetic", seed)[0] for seed in (7, 7, 8))
    first = [one.read(at(tick))[0] for tick in range(20)]
    assert first == [two.read(at(tick))[0] for tick in range(20)]
    assert first != [other.read(at(tick))[0] for tick in range(20)]
    for sample in first:
        assert sample.tags == (("sensor", "synthetic"), ("synthetic", "true"))
        voltage, current = sample.fields["voltage_v"], sample.fields["current_a"]
        assert isinstance(voltage, float)
        assert isinstance(current, float)
        assert sample.fields["power_w"] == voltage * current


def test_a_power_sensor_nobody_knows_is_refused() -> None:
    with pytest.raises(UsageError, match="ina999"):
        find_power("ina999", 1)
