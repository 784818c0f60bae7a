# ruff: noqa: E501 - a row of a table stays on its line
"""The doctor on machines made of files and canned commands: what is amiss is found and has a next command."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pqlab.cli.main import main
from pqlab.doctor import REQUIREMENTS, requirements, run_checks
from pqlab.doctor.engine import IMAGES, SERVICES
from pqlab.doctor.model import Finding, Reading, Requirement, examine, exit_code, render_table, to_json
from pqlab.doctor.system import CommandResult, System, run_command
from pqtunnel.quiet import Probe

STAT = (
    "cpu  100 0 50 {idle} 20 0 5 {steal} 0 0\ncpu0 50 0 25 400 10 0 3 7 0 0\ncpu1 50 0 25 400 10 0 2 8 0 0\n"
)
THROTTLED = "sys/devices/platform/soc/soc:firmware/get_throttled"
THROTTLED_PI5 = "sys/devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled"
THROTTLED_AXI = "sys/devices/platform/axi/soc@107c000000:firmware/get_throttled"
TCP_HEADER = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
)
TCP_LISTEN = (
    "   0: 0100007F:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
)
# A connection of somebody to one of our ports is no listener.
TCP_OPEN = "   1: 0100007F:BBD0 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 1 1\n"


# As compose/owner.sh says it.
THEIRS = (
    "error: the lab on this machine is another checkout's; no campaign runs on it\n"
    "  why:  /else/lab brought it up; there is one lab on a machine\n"
    "  next: make -C /else/lab lab-down (as its user, or with sudo), then the same command here"
)


class Machine:
    """A good machine with the lab up; tests take single things away."""

    def __init__(self, folder: Path) -> None:
        self.root, self.project = folder / "root", folder / "project"
        self.answers: dict[str, CommandResult] = {
            "docker version": CommandResult(0, "26.1.5", ""),
            "docker compose": CommandResult(0, "2.26.1", ""),
            "docker images": CommandResult(0, "\n".join(f"pqlab/{name}:dev" for name in IMAGES), ""),
            "docker info": CommandResult(0, str(self.project), ""),
            "lab.sh mine": CommandResult(0, "", ""),
            "services": CommandResult(
                0, "\n".join(f"pqlab-{s}-1\tUp 3 minutes (healthy)" for s in SERVICES), ""
            ),
            "ports": CommandResult(
                0, "127.0.0.1:48081->48080/tcp\n127.0.0.1:48080->48080/tcp\n\n127.0.0.1:8086->8086/tcp", ""
            ),
        }
        self.free = 100 * 2**30
        self.probe = Probe(100, 500_000, 2_000, 4_000)
        self.now_ns = 0
        self.real_ns = 10**18
        self.step_ns = 0
        self.slept: Callable[[], object] = lambda: self.write("proc/stat", STAT.format(steal=15, idle=500))
        self.write("proc/stat", STAT.format(steal=15, idle=400))
        self.write("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
        self.write("proc/loadavg", "0.20 0.3 0.4 1/100 55\n")
        self.write("proc/net/tcp", TCP_HEADER + "".join(TCP_LISTEN.format(port=p) for p in (48080, 8086)))
        self.write("proc/net/tcp6", TCP_HEADER)
        self.write("proc/sys/kernel/osrelease", "6.1.0-test\n")
        self.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
        self.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
        self.write("proc/sys/net/core/rmem_max", "4194304\n")
        self.write("proc/sys/net/core/wmem_max", "16777216\n")
        self.answers["chronyc -c"] = CommandResult(
            0, "C0000201,192.0.2.1,2,1764,-0.000210,0.0,0.0,1,0,0,0,0,0,Normal", ""
        )
        self.write("sys/module/wireguard/version", "1\n")
        self.write("lib/modules/6.1.0-test/modules.dep", "kernel/net/sched/sch_netem.ko.xz:\n")
        self.write("dev/net/tun", "")
        for holder, name in (
            ("drone", "psk.secret"),
            ("drone", "sig/mldsa65.secret"),
            ("gcs", "sig/a.key.pem"),
            ("controller", "tls.key.pem"),
        ):
            path = self.project / "keys" / holder / name
            path.parent.mkdir(parents=True)
            path.write_text("secret")
            path.chmod(0o600)
        (self.project / "keys" / "complete").write_text("")
        (self.project / "compose").mkdir()
        (self.project / "compose" / "lab.sh").touch()

    def write(self, path: str, text: str) -> None:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    def command(self, arguments: Sequence[str]) -> CommandResult:
        name = " ".join((Path(arguments[0]).name, *arguments[1:2]))
        if name == "docker ps":
            name = "ports" if arguments[-1] == "{{.Ports}}" else "services"
        return self.answers[name]

    def sleep(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)
        self.real_ns += int(seconds * 1e9) + self.step_ns
        self.slept()

    def examine(self, container_lab: bool = True) -> dict[str, Finding]:
        system = System(
            self.project,
            self.root,
            command=self.command,
            free_bytes=lambda path: self.free,
            sleep=self.sleep,
            monotonic_ns=lambda: self.now_ns,
            realtime_ns=lambda: self.real_ns,
            probe=lambda: self.probe,
        )
        return {finding.name: finding for finding in examine(requirements(container_lab), system)}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_good_machine_is_fine(machine: Machine) -> None:
    findings = machine.examine()
    amiss = {name: finding for name, finding in findings.items() if finding.status in ("warn", "fail")}
    assert amiss == {}
    assert exit_code(list(findings.values())) == 0
    assert findings["netem"].observed == "a module"
    assert findings["wireguard"].observed == "loaded"


def no(command: str, code: int | None = 1, stderr: str = "") -> Callable[[Machine], None]:
    def take_away(machine: Machine) -> None:
        machine.answers[command] = CommandResult(code, "", stderr)

    return take_away


def answer(command: str, stdout: str) -> Callable[[Machine], None]:
    def change(machine: Machine) -> None:
        machine.answers[command] = CommandResult(0, stdout, "")

    return change


def waits(waited_ns: int) -> Callable[[Machine], None]:
    return attribute("probe", Probe(100, 500_000, waited_ns, waited_ns))


def file(path: str, text: str) -> Callable[[Machine], None]:
    return lambda machine: machine.write(path, text)


def attribute(name: str, value: object) -> Callable[[Machine], None]:
    return lambda machine: setattr(machine, name, value)


def no_lab_script(machine: Machine) -> None:
    (machine.project / "compose" / "lab.sh").unlink()


def foreign_port(machine: Machine) -> None:
    machine.write("proc/net/tcp6", TCP_HEADER + TCP_LISTEN.format(port=48081))
    machine.answers["ports"] = CommandResult(0, "127.0.0.1:48080->48080/tcp\n127.0.0.1:8086->8086/tcp", "")


def stolen(machine: Machine) -> None:
    machine.slept = lambda: machine.write("proc/stat", STAT.format(steal=35, idle=500))


def open_key(machine: Machine) -> None:
    (machine.project / "keys/drone/psk.secret").chmod(0o640)


def no_drone_keys(machine: Machine) -> None:
    shutil.rmtree(machine.project / "keys/drone")


def half_made_keys(machine: Machine) -> None:
    (machine.project / "keys/complete").unlink()


def no_signing_keys(machine: Machine) -> None:
    shutil.rmtree(machine.project / "keys/drone/sig")


@pytest.mark.parametrize(
    ("change", "name", "status", "says"),
    [
        (no("docker version", None), "engine", "fail", "no docker command"),
        (no("docker version", 1, "Cannot connect to the Docker daemon"), "engine", "fail", "no engine answers"),
        (no("docker version", 1, "permission denied while trying"), "engine", "fail", "may not talk"),
        (answer("docker version", "19.03.1"), "engine", "fail", "19.03.1"),
        (answer("docker version", "gibberish"), "engine", "fail", "cannot be read"),
        (no("docker compose"), "compose", "fail", "no `docker compose`"),
        (answer("docker compose", "1.29.2"), "compose", "fail", "1.29.2"),
        (answer("docker images", "pqlab/base:dev"), "images", "warn", "tunnel"),
        (answer("services", ""), "services", "note", "down"),
        (answer("services", "pqlab-drone-1\tUp 2 s (unhealthy)"), "services", "note", "not well: pqlab-drone-1"),
        (no("lab.sh mine", 4, THEIRS), "lab owner", "fail", "the lab on this machine is another checkout's; no campaign runs on it: /else/lab brought it up"),
        (no("lab.sh mine", 1, "sh: no such thing"), "lab owner", "fail", "no such thing"),
        (no_lab_script, "lab owner", "fail", "no compose/lab.sh"),
        (foreign_port, "ports", "fail", "48081 (agent of the drone)"),
        (attribute("free", 2**30), "disk", "fail", "1.0 GiB"),
        (attribute("free", 5 * 2**30), "disk room", "warn", "5.0 GiB"),
        (file("proc/meminfo", "MemAvailable: 500000 kB\n"), "memory", "fail", "0.5 GiB"),
        (file("proc/meminfo", "MemAvailable: 1500000 kB\n"), "memory room", "warn", "1.4 GiB"),
        (file("proc/meminfo", "MemTotal: 5 kB\n"), "memory", "fail", "cannot be read"),
        (waits(420_000), "quiet", "warn", "waits 0.42 ms for a processor to work 0.50 ms (load average 0.20)"),
        (stolen, "steal", "warn", "%"),
        (attribute("slept", lambda: None), "steal", "warn", "stood still"),
        (file("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"), "clock source", "warn", "hpet"),
        (attribute("step_ns", 30_000_000), "clock steps", "warn", "30.000 ms"),
        (file("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"), "governor", "warn", "powersave"),
        (no_drone_keys, "keys", "warn", "no keys for drone"),
        (half_made_keys, "keys", "warn", "cut off"),
        (no_signing_keys, "drone signs", "warn", "drone_auth"),
        (open_key, "key modes", "fail", "keys/drone/psk.secret"),
        (file("lib/modules/6.1.0-test/modules.dep", ""), "netem", "note", "not in kernel 6.1.0-test"),
        (file("proc/sys/net/core/rmem_max", "212992\n"), "socket buffers", "note", "receive 0.2 MiB"),
        (file("sys/devices/system/cpu/cpufreq/boost", "1\n"), "turbo", "note", "turbo is on"),
        (file(THROTTLED, "50005\n"), "throttling", "warn", "now: under-voltage, throttled"),
        (file(THROTTLED, "20000\n"), "throttling", "warn", "since boot: frequency capped"),
        (file(THROTTLED_PI5, "1\n"), "throttling", "warn", "now: under-voltage"),
        (file(THROTTLED_AXI, "1\n"), "throttling", "warn", "now: under-voltage"),
        (file("proc/device-tree/model", "Raspberry Pi 5 Model B Rev 1.0\0"), "throttling", "warn", "not known: this is a Raspberry Pi 5"),
        (file("sys/firmware/devicetree/base/model", "Raspberry Pi 4\0"), "throttling", "warn", "not known"),
        (answer("chronyc -c", "00000000,,0,0,0.0,0.0,0.0,0,0,0,0,0,0,Not synchronised"), "clock sync", "note", "no source yet"),
        (answer("chronyc -c", "C0000201,192.0.2.1,2,1764,0.0123,0.0,0.0,1,0,0,0,0,0,Normal"), "clock sync", "note", "+12.300 ms"),
    ],
)  # fmt: skip
def test_each_thing_amiss_is_found_by_name(
    machine: Machine, change: Callable[[Machine], None], name: str, status: str, says: str
) -> None:
    change(machine)
    findings = machine.examine()
    assert findings[name].status == status
    assert says in findings[name].observed
    assert findings[name].advice
    assert exit_code(list(findings.values())) == {"fail": 4, "warn": 3, "note": 0}[status]


def test_of_another_s_lab_the_next_command_is_the_owner_s(machine: Machine) -> None:
    no("lab.sh mine", 4, THEIRS)(machine)
    assert str(machine.examine()["lab owner"].advice).startswith("make -C /else/lab lab-down")
    assert machine.examine(container_lab=False).keys().isdisjoint({"lab owner"})


def test_one_core_is_a_warning(machine: Machine) -> None:
    machine.write("proc/stat", "cpu  1 0 1 1 1 1 1 1 0 0\ncpu0 1 0 1 1 1 1 1 1 0 0\n")
    assert machine.examine()["cores"].status == "warn"


def test_a_port_is_ours_only_while_the_lab_publishes_it(machine: Machine) -> None:
    assert machine.examine()["ports"].status == "ok"
    machine.answers["ports"] = CommandResult(1, "", "no engine")
    assert machine.examine()["ports"].status == "fail"


def test_a_controller_of_hosts_may_hold_an_agent_and_have_no_engine(machine: Machine) -> None:
    for name in ("docker version", "docker compose", "docker images", "docker info", "services", "ports"):
        machine.answers[name] = CommandResult(None, "", "no docker command")
    hosts = machine.examine(container_lab=False)
    assert {name for name, finding in hosts.items() if finding.status in ("fail", "warn")} == set()
    containers = machine.examine()
    assert containers["ports"].status == "fail"
    assert hosts.keys() == containers.keys() - {
        "engine",
        "compose",
        "ports",
        "lab owner",
        "images",
        "services",
    }


HOSTS = "[drone]\npi ansible_host=127.0.0.1 pqlab_agent_port=1\n[gcs]\nground ansible_host=127.0.0.1 pqlab_agent_port=1\n"


@pytest.mark.parametrize(
    ("shared", "looks"),
    [("", False), ("[lab:children]\ndrone\ngcs\n[lab:vars]\npqlab_compose_project=pqlab\n", True)],
)
def test_the_inventory_says_whether_the_container_lab_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shared: str, looks: bool
) -> None:
    file = tmp_path / "hosts.ini"
    file.write_text(HOSTS + shared)
    main(["doctor", "--json", "--inventory", str(file)])
    names = [row["name"] for row in json.loads(capsys.readouterr().out)["findings"]]
    assert ("ports" in names) is looks
    assert {"disk", "drone agent"} <= set(names)


def test_a_connection_to_a_port_is_no_listener(machine: Machine) -> None:
    machine.write("proc/net/tcp", TCP_HEADER + TCP_OPEN)
    machine.answers["ports"] = CommandResult(1, "", "no engine")
    assert machine.examine()["ports"].status == "ok"


def test_table_and_json_say_the_same(machine: Machine) -> None:
    machine.free = 2**30
    findings = list(machine.examine().values())
    table = render_table(findings)
    assert "[ ] disk " in table
    assert "next: make clean" in table
    document = json.loads(json.dumps(to_json(findings)))
    assert document["exit_code"] == 4
    assert [row["name"] for row in document["findings"]] == [finding.name for finding in findings]
    for row in document["findings"]:
        assert row["name"] in table
        assert (row["advice"] is None) == (row["status"] == "ok")


def test_what_cannot_be_read_is_never_fine() -> None:
    def broken(_system: System) -> Reading:
        raise PermissionError(13, "Permission denied")

    requirement = Requirement("x", "need", "something", broken, "do this")
    finding = requirement.check(System(Path("/")))
    assert finding.status == "fail"
    assert "Permission denied" in finding.observed
    assert replace(requirement, level="want").check(System(Path("/"))).status == "warn"


def test_commands_that_are_absent_or_fail() -> None:
    assert run_command(["pqlab-no-such-command"]).code is None
    assert run_command(["false"]).code == 1
    assert run_command(["echo", "hello"]) == CommandResult(0, "hello", "")


def test_udp_offload_is_asked_of_a_real_socket(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(92, "Protocol not available")

    class Old(socket.socket):
        setsockopt = refuse  # type: ignore[assignment]

    monkeypatch.setattr(socket, "socket", Old)
    finding = machine.examine()["udp offload"]
    assert (finding.status, finding.observed) == ("note", "no UDP GSO and GRO")


def test_this_machine_can_be_examined(tmp_path: Path) -> None:
    findings = run_checks(tmp_path)
    assert [finding.name for finding in findings] == [requirement.name for requirement in REQUIREMENTS]
    assert next(finding for finding in findings if finding.name == "keys").status == "warn"


def test_a_board_says_who_it_is_and_that_it_was_never_throttled(machine: Machine) -> None:
    machine.write("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.5\0")
    path = machine.root / "proc/device-tree/system/linux,revision"
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes.fromhex("00c03115"))
    machine.write(THROTTLED, "0\n")
    machine.write("dev/i2c-1", "")
    findings = machine.examine()
    assert findings["board"].observed == "Raspberry Pi 4 Model B Rev 1.5, revision 00c03115"
    assert (findings["throttling"].status, findings["throttling"].observed) == ("ok", "never since boot")
    assert findings["i2c"].observed == "/dev/i2c-1"


def test_without_chrony_the_service_manager_is_asked(machine: Machine) -> None:
    machine.answers["chronyc -c"] = CommandResult(None, "", "no command chronyc")
    machine.answers["timedatectl show"] = CommandResult(0, "yes", "")
    assert machine.examine()["clock sync"].status == "ok"
    machine.answers["timedatectl show"] = CommandResult(1, "", "no bus")
    assert machine.examine()["clock sync"].observed == "nothing here tells whether the clock is set"


def test_findings_of_several_hosts_stand_under_their_names() -> None:
    found = [
        Finding("engine", "ok", "there", "there", None),
        Finding("drone clock", "warn", "late", "on time", "set it", "drone, pi at 192.0.2.10:48080"),
        Finding("ports", "ok", "free", "free", None),
    ]
    lines = render_table(found).splitlines()
    assert [line for line in lines if line.endswith(":")] == [
        "this machine:",
        "drone, pi at 192.0.2.10:48080:",
    ]
    assert lines.index("drone, pi at 192.0.2.10:48080:") == 3, "two findings of this machine come first"
    assert "this machine:" not in render_table([found[0]])
    assert [row.get("host") for row in to_json(found)["findings"]] == [None, found[1].host, None]  # type: ignore[attr-defined]
