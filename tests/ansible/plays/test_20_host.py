"""One host from virgin to provisioned and back: what changes, what does not, and what each refusal says."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from played import ANSIBLE, ROOT, Played, play

from .conftest import ADDRESS, HOST, ONE_HOST, Host, run

pytestmark = [pytest.mark.e2e, pytest.mark.beside_waits]

UNITS = ("pqtunnel-drone", "pqlab-vehicle", "pqlab-mavproxy", "pqlab-firewall", "pqlab-detector-xgboost")
MOVED = """
import json, pathlib, time
from pqtunnel.agent.detectors import Detectors
agent = Detectors(pathlib.Path("/run/pqlab-verdicts"))
def ask(action):
    return agent.handle({"name": "xgboost", "action": action})
def used(seconds):
    before = ask("usage")["cpu_ns"]
    time.sleep(seconds)
    return ask("usage")["cpu_ns"] - before
told = {"facts": ask("facts"), "at first": {"asleep": ask("usage")["frozen"]}, "slept": used(1.0)}
told["woken"] = ask("wake")
told["woke"] = used(2.0)
told["put to sleep"] = ask("sleep")
print(json.dumps(told))
"""
#: rewritten by every change of users; their content is compared by `getent`
_ACCOUNTS = re.compile(r"^/etc/((passwd|group|shadow|gshadow|subuid|subgid)-?|ld\.so\.cache|\.pwd\.lock)$")


@pytest.fixture(scope="module")
def host(artefacts: None) -> Iterator[Host]:
    made = Host()
    try:
        yield made
    finally:
        made.close()


def inventory_of(host: Host) -> dict[str, list[str]]:
    """Everything that a role could leave behind, by kind."""
    files = host.sh("find /etc /opt /usr/local /var/lib/pqlab-host /srv -xdev ! -type d 2>/dev/null; true")
    return {
        "files": [name for name in sorted(files.splitlines()) if not _ACCOUNTS.match(name)],
        "folders": sorted(host.sh("find /etc /opt /usr/local /srv -xdev -type d").splitlines()),
        "users": sorted(host.sh("getent passwd; getent group").splitlines()),
        "packages": sorted(host.sh("dpkg-query -W -f '${db:Status-Abbrev}${Package}\\n'").splitlines()),
        "units": sorted(host.sh("systemctl list-unit-files --no-legend 'pq*' || true").splitlines()),
    }


def provision(*words: str) -> Played:
    return play("provision.yml", *ONE_HOST, *words)


@pytest.fixture(scope="module")
def before(host: Host) -> dict[str, list[str]]:
    return inventory_of(host)


def test_check_mode_is_clean_on_a_virgin_host(host: Host, before: dict[str, list[str]]) -> None:
    played = provision("--check")
    assert played.code == 0, played.failures or played.text[-3000:]
    assert len(played.changed) > 10
    assert inventory_of(host) == before


def test_a_missing_sensor_is_named(host: Host) -> None:
    played = provision("-e", "pqlab_power=ina219")
    assert played.code != 0
    said = played.said("Stop if the host was not provisioned")
    assert "has no /dev/i2c-1" in said
    assert "pqlab_power=none" in said


def bring(artifacts: Path) -> Played:
    """Only the part of the roles that brings an artefact to the host."""
    part = str(ROOT / "tests/ansible/plays/artefact.yml")
    return play(part, *ONE_HOST, "-e", f"lab_here={ROOT}", "-e", f"lab_artifacts={artifacts}")


@pytest.mark.parametrize(
    ("platform", "digest", "said"),
    [
        ("linux/arm64", True, "was made for linux/arm64, and pqlab-host is linux/amd64"),
        ("linux/amd64", False, "damaged or exchanged"),
    ],
)
def test_an_artefact_that_does_not_fit_is_refused(
    host: Host, tmp_path: Path, platform: str, digest: bool, said: str
) -> None:
    folder = tmp_path / "linux-amd64"
    folder.mkdir()
    (folder / "tunnel.tar.gz").write_bytes(b"no archive")
    sha256 = hashlib.sha256(b"no archive" if digest else b"another").hexdigest()
    manifest = {"platform": platform, "sha256": sha256, "python": "3.13"}
    (folder / "tunnel.tar.gz.json").write_text(json.dumps(manifest))
    played = bring(tmp_path)
    assert played.code != 0
    assert said in played.failures
    assert "./images/export" in played.failures or "export it again" in played.failures


def test_a_full_disk_is_told_with_both_figures(host: Host) -> None:
    host.sh("mkdir -p /opt/pqlab && mount -t tmpfs -o size=8m tmpfs /opt/pqlab")
    try:
        played = bring(ROOT / "artifacts")
    finally:
        host.sh("umount /opt/pqlab; rmdir /opt/pqlab")
    assert played.code != 0
    said = r"has [0-9]+ MB free in /opt/pqlab, tunnel needs about [0-9]+ MB"
    assert re.search(said, played.failures)


def test_converge_brings_an_agent_that_runs(host: Host) -> None:
    played = provision()
    assert played.code == 0, played.failures or played.text[-3000:]
    states = host.sh(f"systemctl is-active {' '.join(UNITS)}", check=False).split()
    assert states == ["active"] * len(UNITS), host.sh("journalctl --no-pager -n 40", check=False)
    assert host.sh("systemctl show -p User --value pqtunnel-drone").strip() == "pqlab"
    modes = host.sh("find /etc/pqlab/keys -type f -printf '%m %u\\n' | sort -u").split("\n")
    assert modes[:-1] == ["600 pqlab"]
    rules = host.sh("nft list table inet pqlab")
    ports = {int(port) for port in re.findall(r"dport (\d+)", rules)}
    assert ports == {46012, 47003, 47004, 48080}
    assert "48080 ip saddr 192.0.2.1 accept" in rules


def test_the_detector_sleeps_and_its_agent_moves_it(host: Host) -> None:
    """By the agent's own code, as the agent's user: what a campaign asks for over the network."""
    asked = host.sh(
        "tree=$(ls -d /opt/pqlab/tunnel-*); cd /tmp; runuser -u pqlab -- env PYTHONDONTWRITEBYTECODE=1"
        f" PYTHONPATH=$tree/opt/pqlab $tree/opt/venv/bin/python3 -c {shlex.quote(MOVED)}"
    )
    told = json.loads(asked)
    assert told["facts"]["model"] == "xgboost-5w"
    assert [told[name]["asleep"] for name in ("at first", "woken", "put to sleep")] == [True, False, True]
    assert told["slept"] == 0
    assert told["woke"] > 0


def test_a_second_converge_puts_back_what_is_gone_and_changes_nothing_else(host: Host) -> None:
    host.sh("rm /etc/udev/rules.d/60-pqlab-i2c.rules")
    played = provision()
    assert played.code == 0, played.failures
    assert played.changed == [f"{HOST}: Give the bus to that group"]
    assert "udev does not run" in played.said("Say that udev does not run here")


def test_what_was_put_back_is_left_alone(host: Host) -> None:
    """Only the part of the role that did it: a third converge would take minutes."""
    played = play(str(ROOT / "tests/ansible/plays/access.yml"), *ONE_HOST)
    assert played.code == 0, played.failures
    assert played.changed == []


def with_other(tmp_path: Path, this: str, that: str) -> str:
    """The same inventory with one value exchanged."""
    text = (ANSIBLE / "inventories/host.ini").read_text()
    assert this in text
    file = tmp_path / "other.ini"
    file.write_text(text.replace(this, that))
    return str(file)


def test_a_host_that_is_away_is_told_in_one_sentence(host: Host, tmp_path: Path) -> None:
    """TEST-NET-1 (RFC 5737) is nobody's address."""
    played = play("provision.yml", "-i", with_other(tmp_path, ADDRESS, "192.0.2.1"))
    assert played.code != 0
    said = played.said("Stop if the host was not provisioned")
    assert "pqlab-host (192.0.2.1) does not answer" in said
    assert "power and network" in said


def test_a_refused_key_is_told_with_what_to_try(host: Host, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(stranger))
    other = with_other(tmp_path, "../.state/host/id_ed25519", str(stranger))
    # no connection that is open already may serve
    fresh = "ansible_ssh_args='-oControlPath=none -oIdentitiesOnly=yes'"
    played = play("provision.yml", "-i", other, "-e", fresh)
    assert played.code != 0
    said = played.said("Stop if the host was not provisioned")
    assert "Permission denied" in said
    assert "ssh-copy-id" in said


def test_teardown_leaves_nothing(host: Host, before: dict[str, list[str]]) -> None:
    played = play("teardown.yml", *ONE_HOST)
    assert played.code == 0, played.failures or played.text[-3000:]
    assert inventory_of(host) == before
    assert host.sh("command -v nft || echo none").strip() == "none"
