# ruff: noqa: E501 - a row of a table stays on its line
"""`pqlab setup`: what is asked and refused, the file that comes of it, and what it says of hosts that will not do.

A small script before ssh on PATH plays the hosts: it tells what a host would, or fails as ssh fails.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pqevidence.errors import UsageError
from pqlab.cli import setup as verb
from pqlab.cli.main import main
from pqlab.inventory import load_inventory, variables_of
from pqlab.setup import answers as asked
from pqlab.setup import hosts as looked
from pqlab.setup.hosts import LOOK, reach
from pqlab.setup.inventory import TEMPLATE, differences, rendered
from tools import ended
from waiting import LIMIT_S

ROOT = Path(__file__).resolve().parents[2]
GIVEN = {
    "drone": "192.0.2.10", "drone_user": "pi", "gcs": "192.0.2.20", "controller": "192.0.2.1",
    "drone_link": "198.51.100.1", "gcs_link": "198.51.100.2",
}  # fmt: skip
OPTIONS = [word for key, value in GIVEN.items() for word in ("--" + key.replace("_", "-"), value)]
NET = "pq net {table}   1: 00000000:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 0 0 0"
#: a Pi and a station as they should be
GOOD = [
    "pq seen 192.0.2.1", "pq system Linux aarch64", "pq sudo yes", "pq python Python 3.13.5",
    "pq model Raspberry Pi 5 Model B Rev 1.0", "pq revision yes", "pq i2c /dev/i2c-1", "pq peer yes",
    NET.format(table="tcp", port=22, state="0A"), NET.format(table="tcp", port=48080, state="01"), "pq end",
]  # fmt: skip
FAKE = """#!/bin/sh
# ssh: options away, then the host's own folder says what happens
while [ "$1" = -o ]; do shift 2; done
host=$1; shift
echo "$host $*" >>{log}
here={folder}/${{host#*@}}
if [ -f "$here.refused" ]; then cat "$here.refused" >&2; exit 255; fi
case "$*" in
*date*) late=$(cat "$here.late"); while read -r _; do echo $(($(date +%s%N) + late)); done ;;
*) cat >/dev/null; cat "$here.told" ;;
esac
"""


class Hosts:
    """What the script tells of each host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "asked"
        for address in (GIVEN["drone"], GIVEN["gcs"]):
            self.tell(address, GOOD)
            self.late(address, 0)

    def tell(self, address: str, lines: list[str]) -> None:
        (self.folder / f"{address}.told").write_text("\n".join(lines) + "\n")

    def late(self, address: str, ns: int) -> None:
        (self.folder / f"{address}.late").write_text(str(ns))

    def refuse(self, address: str, said: str) -> None:
        (self.folder / f"{address}.refused").write_text(said)


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    """Two good hosts; both control ports are reached and nothing listens there."""
    places = tmp_path / "hosts"
    places.mkdir()
    (tmp_path / "bin").mkdir()
    made = Hosts(places)
    fake = tmp_path / "bin" / "ssh"
    fake.write_text(FAKE.format(log=shlex.quote(str(made.log)), folder=shlex.quote(str(places))))
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    monkeypatch.setattr(verb, "look", lambda host: looked.look(host, lambda _address, _port: "refused"))
    return made


def done(file: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """Exit code and document of `pqlab setup --json`."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(["setup", "--json", "--inventory", str(file), *OPTIONS, *more])
    return code, json.loads(out.getvalue().splitlines()[-1])


def amiss(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """(role, name) → finding of whatever is not ok."""
    return {
        (row["host"].split(",")[0], row["name"]): row for row in document["findings"] if row["status"] != "ok"
    }


# ---------------------------------------------------------------------- answers and file


def test_the_template_is_the_inventory_as_it_is_delivered() -> None:
    assert (ROOT / "inventory.ini").read_text(encoding="utf-8") == TEMPLATE


def test_answers_become_an_inventory_that_the_lab_reads(tmp_path: Path, hosts: Hosts) -> None:
    file = tmp_path / "my.ini"
    code, document = done(file, "--power", "none", "--detectors", "none")
    assert (code, document["how"], amiss(document)) == (0, "written", {})
    lab = load_inventory(str(file))
    assert {role: lab.agents[role].host for role in lab.agents} == {
        "drone": "192.0.2.10",
        "gcs": "192.0.2.20",
    }
    assert (lab.ring, lab.detectors, lab.windows_station) == ("hardware", (), False)
    drone, gcs = variables_of(file).values()
    assert (drone["ansible_user"], gcs["ansible_user"]) == ("pi", "pi"), (
        "the drone's, where nobody says another"
    )
    assert (drone["pqlab_link_address"], drone["pqlab_power"]) == ("198.51.100.1", "none")
    assert gcs["pqlab_controller_address"] == "192.0.2.1"
    assert "REPLACE_WITH" not in "".join(f"{k}={v}" for row in (drone, gcs) for k, v in row.items())


def test_a_windows_station_gets_its_three_lines() -> None:
    answers = asked.complete({**GIVEN, "gcs_platform": "windows"}, None)
    text = rendered(answers)
    assert all(
        f"\n{line}" in text for line in ("pqlab_platform=windows/amd64\n", "ansible_shell_type=powershell\n")
    )
    assert "\n#pqlab_platform" in rendered({**answers, "gcs_platform": "linux"})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--drone=-oProxyCommand=x"], "--drone"),
        (["--drone", "a b"], "--drone 'a b' will not do"),
        (["--drone", "REPLACE_WITH_PI_ADDRESS"], "will not do"),
        (["--drone-user", "a;b"], "--drone-user"),
        (["--power", "ina21"], "none, ina219, hwmon, pmic"),
        (["--detectors", "xgbost"], "xgboost, tst, cascade"),
        (["--ring", "sim"], "hardware, lab"),
    ],
)
def test_an_answer_that_will_not_do_is_refused_and_nothing_is_written(
    tmp_path: Path, hosts: Hosts, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    file = tmp_path / "my.ini"
    assert main(["setup", "--inventory", str(file), *OPTIONS, *words]) == 2
    assert says in capsys.readouterr().err and not file.exists() and not hosts.log.exists()


def test_unasked_it_names_all_that_it_has_to_know() -> None:
    with pytest.raises(UsageError) as error:
        asked.complete({"gcs": "192.0.2.20"}, None)
    assert error.value.what == "not known: --drone, --drone-user"


def test_a_file_of_answers_yields_to_options_and_a_misspelt_key_is_named(
    tmp_path: Path, hosts: Hosts, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = tmp_path / "answers.toml"
    answers.write_text("".join(f'{key} = "{value}"\n' for key, value in {**GIVEN, "drone_user": "x"}.items()))
    file = tmp_path / "my.ini"
    words = ["setup", "--no-test", "--inventory", str(file), "--answers", str(answers), "--drone-user", "me"]
    assert main(words) == 0
    assert variables_of(file)["drone"]["ansible_user"] == "me"
    answers.write_text('drone_adress = "192.0.2.10"\ndrone = 3\n')
    assert main(words) == 2
    assert "'drone_adress'" in capsys.readouterr().err
    answers.write_text("drone = 3\n")
    assert main(words) == 2
    assert "drone = 3 is no text" in capsys.readouterr().err
    assert not hosts.log.exists(), "--no-test looks at no host"


def test_on_a_terminal_enter_takes_the_default_and_a_wrong_answer_is_asked_again() -> None:
    said = iter(["192.0.2.10", "pi", "", "ina21", "none", "none", "192.0.2.20", "", "", "", "192.0.2.1", ""])
    prompts: list[str] = []

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        return next(said)

    answers = asked.complete({}, ask)
    assert answers["drone_link"] == "192.0.2.10" and answers["power"] == "none"
    assert answers["gcs_user"] == "pi" and answers["ring"] == "hardware"
    assert [prompt for prompt in prompts if "'ina21'" in prompt or "ina21 will" in prompt]
    assert len(prompts) == len(asked.QUESTIONS) + 1


def test_nothing_is_overwritten_without_a_word(
    tmp_path: Path, hosts: Hosts, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my.ini"
    file.write_text(TEMPLATE)
    assert done(file, "--no-test")[1]["how"] == "replaced", "placeholders alone are nobody's"
    assert done(file, "--no-test")[1]["how"] == "unchanged"
    mine = file.read_text().replace("pqlab_power=ina219", "pqlab_power=hwmon")
    file.write_text(mine)
    code, document = done(file, "--no-test")
    assert (code, document["error"]["code"]) == (2, "inventory-there") and file.read_text() == mine
    assert "drone pqlab_power=hwmon → ina219" in document["error"]["why"]
    for number in (1, 2):
        file.write_text(mine)
        document = done(file, "--no-test", "--force")[1]
        kept = file.with_name(f"my.ini.before-{number}")
        assert (document["how"], kept.read_text()) == ("replaced", mine)
    capsys.readouterr()


def test_differences_are_by_section() -> None:
    assert differences("[a:vars]\nx=1\n[b:vars]\nx=1\n", "[a:vars]\nx=1\n[b:vars]\nx=2\n") == ["b x=1 → 2"]


# ---------------------------------------------------------------------- hosts


@pytest.mark.parametrize(
    ("said", "meaning", "command"),
    [
        ("pi@192.0.2.10: Permission denied (publickey).", "does not take your ssh key", "ssh-copy-id pi@192.0.2.10"),
        ("Host key verification failed.", "not known here", "ssh pi@192.0.2.10 once"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "not the one that is known",
         "ssh-keygen -R 192.0.2.10"),
        ("ssh: connect to host 192.0.2.10 port 22: Connection refused", "no ssh server listens", "openssh-server"),
        ("ssh: connect to host 192.0.2.10 port 22: Connection timed out", "does not answer", "ping 192.0.2.10"),
        ("ssh: connect to host 192.0.2.10 port 22: No route to host", "does not answer", "ping 192.0.2.10"),
        ("ssh: Could not resolve hostname pi: Name or service not known", "no host of that name", "correct the address"),
        ("something new", "something new", "ssh -v pi@192.0.2.10"),
    ],
)  # fmt: skip
def test_each_way_of_ssh_to_fail_has_its_sentence_and_next_command(
    tmp_path: Path, hosts: Hosts, said: str, meaning: str, command: str
) -> None:
    hosts.refuse("192.0.2.10", said + "\n")
    code, document = done(tmp_path / "my.ini")
    (found,) = [row for (role, _), row in amiss(document).items() if role == "drone"]
    assert (code, found["name"], found["status"]) == (4, "ssh", "fail")
    assert meaning in found["observed"] and command in found["advice"] and "\n" not in found["observed"]
    assert (tmp_path / "my.ini").exists(), "the answers are kept, and tested again with --check"


def replaced(name: str, *lines: str) -> Callable[[Hosts], None]:
    """The drone tells these lines instead of those of that name."""

    def change(hosts: Hosts) -> None:
        kept = [line for line in GOOD[:-1] if not line.startswith(f"pq {name}")]
        hosts.tell("192.0.2.10", [*kept, *lines, "pq end"])

    return change


@pytest.mark.parametrize(
    ("change", "name", "status", "observed", "advice"),
    [
        (replaced("sudo", "pq sudo no"), "sudo", "note", "asks for a password", "-K"),
        (replaced("python"), "system", "fail", "no python3", "apt-get install python3"),
        (replaced("system", "pq system Darwin arm64"), "system", "fail", "Darwin", "a Linux host"),
        (replaced("revision", "pq revision no"), "board", "warn", "without a revision", "--ring lab"),
        (replaced("i2c"), "i2c", "note", "no I²C bus yet", "provision.yml"),
        (replaced("peer", "pq peer no"), "link", "warn", "198.51.100.2 does not answer", "ping 198.51.100.2"),
        (replaced("peer", "pq peer unknown"), "link", "warn", "no ping", "ping"),
        (replaced("seen", "pq seen 203.0.113.9"), "controller", "warn", "203.0.113.9, and 192.0.2.1 is let in",
         "--controller 203.0.113.9"),
        (replaced("net", NET.format(table="tcp6", port=48080, state="0A")), "ports", "fail", "48080/tcp", "sport = :48080"),
        (replaced("net", NET.format(table="udp", port=46012, state="07")), "ports", "fail", "46012/udp", "ss -lnpu"),
        (lambda hosts: hosts.late("192.0.2.10", 900_000_000), "clock", "warn", "+", "provision.yml"),
    ],
)  # fmt: skip
def test_each_thing_amiss_at_a_host_is_one_sentence_with_the_next_command(
    tmp_path: Path,
    hosts: Hosts,
    change: Callable[[Hosts], None],
    name: str,
    status: str,
    observed: str,
    advice: str,
) -> None:
    change(hosts)
    code, document = done(tmp_path / "my.ini")
    assert list(amiss(document)) == [("drone", name)]
    found = amiss(document)["drone", name]
    assert found["status"] == status and observed in found["observed"] and advice in found["advice"]
    assert code == {"fail": 4, "warn": 3, "note": 0}[status]


def test_ports_that_our_own_services_hold_are_fine(tmp_path: Path, hosts: Hosts) -> None:
    replaced("net", NET.format(table="tcp", port=48080, state="0A"), "pq unit pqtunnel-drone")(hosts)
    code, document = done(tmp_path / "my.ini")
    assert code == 0
    assert any("held by pqtunnel-drone" in row["observed"] for row in document["findings"])


def test_a_shell_that_says_something_else_is_not_taken_for_an_answer(tmp_path: Path, hosts: Hosts) -> None:
    hosts.tell("192.0.2.10", ["Welcome to the Pi!", *GOOD[:3]])
    code, document = done(tmp_path / "my.ini")
    assert code == 4
    assert "did not answer to the end" in amiss(document)["drone", "system"]["observed"]


def test_a_control_port_that_is_swallowed_is_told(
    tmp_path: Path, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb, "look", lambda host: looked.look(host, lambda _address, _port: "silent"))
    code, document = done(tmp_path / "my.ini")
    assert (code, set(amiss(document))) == (4, {("drone", "control port"), ("gcs", "control port")})
    assert "192.0.2.10" in amiss(document)["drone", "control port"]["advice"]


def test_a_windows_station_is_asked_for_no_shell(tmp_path: Path, hosts: Hosts) -> None:
    code, document = done(tmp_path / "my.ini", "--gcs-platform", "windows", "--gcs-user", "Admin")
    rows = [row["name"] for row in document["findings"] if row["host"].startswith("gcs")]
    assert (code, rows) == (0, ["ssh", "control port"])
    assert [line for line in hosts.log.read_text().splitlines() if line.startswith("Admin@")] == [
        "Admin@192.0.2.20 ver"
    ]


def test_check_writes_nothing_and_reads_what_is_there(
    tmp_path: Path, hosts: Hosts, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my.ini"
    done(file, "--no-test")
    before = file.read_bytes()
    replaced("i2c")(hosts)
    assert main(["setup", "--check", "--inventory", str(file)]) == 0
    told = capsys.readouterr().out
    assert "drone, pi@192.0.2.10:" in told and "gcs, pi@192.0.2.20:" in told, "by host"
    assert "[-] i2c" in told and "provision.yml --check --diff" in told
    assert file.read_bytes() == before and not list(tmp_path.glob("*before*"))
    assert main(["setup", "--check", "--inventory", str(ROOT / "inventory.ini")]) == 2
    assert "placeholder" in capsys.readouterr().err
    assert main(["setup", "--check", "--inventory", str(ROOT / "ansible/inventories/lab.ini")]) == 2
    assert "reached by ssh" in capsys.readouterr().err


def test_without_ssh_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, document = done(tmp_path / "my.ini")
    assert code == 4
    assert amiss(document)["drone", "ssh"]["advice"] == "sudo apt-get install openssh-client"


def test_what_a_host_is_asked_changes_nothing_and_answers_to_the_end() -> None:
    """The script itself, here: its lines are those that are read."""
    told = ended(["sh", "-s", "--", "127.0.0.1"], LIMIT_S, input=LOOK).stdout.splitlines()
    assert told[-1] == "pq end"
    names = {line.split()[1] for line in told}
    assert {"seen", "system", "sudo", "python", "revision", "peer"} <= names
    assert all(line.startswith("pq ") for line in told)


def test_a_port_answers_in_one_of_three_ways() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        assert reach("127.0.0.1", port) == "refused"
        listening.listen()
        assert reach("127.0.0.1", port) == "open"
    assert reach("no.such.host.invalid", 1) == "silent"
