"""The first hour with the playbooks: a checkout wherever it lies, a check that changes nothing, files that an
editor of Windows wrote, and what is said of a Windows station before anything is done to it.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from role_kit import ROOT, playbook

from played import Played
from pqlab.doctor.windows import SENTENCE

PLAYBOOKS = ("provision.yml", "run-scenario.yml", "collect.yml", "teardown.yml")
SIM = ("-i", "inventories/sim.ini")
SHORT = (
    "-e",
    "scenario=smoke",
    "-e",
    "suites=cs-mlkem768-aesgcm-mldsa65",
    "-e",
    "session_s=3",
    "-e",
    "reps=1",
)
SAID = "Say what would be run"
STATION = "Say what a Windows ground station can and cannot do"
#: the doctor would judge the machine of this test
TOOL = """#!/bin/sh
echo "$0 $*" >>{asked}
case "$*" in *doctor*) echo {{}}; exit;; esac
{shift}PYTHONPATH={path} exec {python} -B {module}"$@"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the playbooks need of a checkout, in a folder whose name has blanks and umlauts."""
    tree = tmp_path / "Prüfstand im Büro"
    for name in ("ansible", "scenarios"):
        shutil.copytree(ROOT / name, tree / name)
    (tree / "conduct/src/pqlab/doctor").mkdir(parents=True)
    (tree / "conduct/src/pqlab/doctor/windows_station.txt").write_text(SENTENCE)
    for name in ("evidence", "results"):
        (tree / name).mkdir()
    words = {
        "asked": shlex.quote(str(tmp_path / "asked")),
        "path": ":".join(sys.path),
        "python": sys.executable,
    }
    (tree / ".venv/bin").mkdir(parents=True)
    for name, shift, module in (("pqlab", "", "-m pqlab "), (".venv/bin/python", "shift;", "")):
        (tree / name).write_text(TOOL.format(shift=shift, module=module, **words))
        (tree / name).chmod(0o755)
    return tree


def asked(checkout: Path) -> list[str]:
    """Which of the checkout's tools were begun, and with what."""
    file = checkout.parent / "asked"
    return file.read_text().replace(f"{checkout}/", "").splitlines() if file.exists() else []


def files(tree: Path) -> dict[str, tuple[int, int]]:
    """Every file below it with its size and the time of its last change."""
    return {
        str(path.relative_to(tree)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in tree.rglob("*")
    }


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_syntax_in_a_folder_with_blanks_and_umlauts(checkout: Path, name: str) -> None:
    played = playbook(checkout.parent, name, *SIM, "--syntax-check", tree=checkout)
    assert played.code == 0, played.text[-2000:]
    assert f"playbook: {name}" in played.text


@pytest.mark.timeout(300)  # several programs one after another, on a machine that may be busy
def test_a_simulated_run_in_a_folder_with_blanks_and_umlauts(checkout: Path) -> None:
    played = playbook(checkout.parent, "run-scenario.yml", *SIM, *SHORT, tree=checkout, timeout_s=280)
    assert played.code == 0, played.failures or played.text[-3000:]
    assert '{"pass": 1}' in played.said("Say where the bundle is")
    assert (checkout / "results/latest/data/report.html").is_file()
    assert played.said("Say what healing did") == "healed: there is no agent to heal"
    assert {host for host, _, row in played.rows if row.get("changed")} == {"localhost"}, (
        "no host to provision"
    )


def test_a_check_says_what_would_be_run_and_changes_nothing(checkout: Path) -> None:
    before = files(checkout)
    played = playbook(checkout.parent, "run-scenario.yml", *SIM, *SHORT, "--check", tree=checkout)
    assert played.code == 0, played.failures or played.text[-3000:]
    assert played.changed == []
    assert files(checkout) == before
    said = played.said(SAID)
    assert "1 cell: 1 suite × 1 condition × 1 repetition, " in said
    assert "Nothing was changed." in said
    command = shlex.split(re.findall(r"run on localhost: (.*?); 1 cell:", said)[0])
    assert command[:4] == [str(checkout / "pqlab"), "run", "--json", "smoke"]
    assert command[command.index("--suites") + 1] == "cs-mlkem768-aesgcm-mldsa65"
    verbs = [line.split()[4] for line in asked(checkout)]
    assert verbs == ["plan", "doctor"], "asked of .venv, never of ./pqlab, which would make one"
    assert all(line.startswith(".venv/bin/python -B -m pqlab ") for line in asked(checkout))


@pytest.mark.timeout(300)  # three playbooks
def test_a_check_of_what_cannot_be_run_says_why(checkout: Path) -> None:
    wrong = playbook(
        checkout.parent, "run-scenario.yml", *SIM, "--check", "-e", "scenario=smok", tree=checkout
    )
    assert wrong.code != 0
    assert "smoke" in wrong.said("Stop with the reason")
    none = playbook(checkout.parent, "run-scenario.yml", *SIM, "--check", tree=checkout)
    assert "No scenario was named" in none.said("Stop with the reason")
    shutil.rmtree(checkout / ".venv")
    before = files(checkout)
    bare = playbook(checkout.parent, "run-scenario.yml", *SIM, *SHORT, "--check", tree=checkout)
    assert bare.code == 0, bare.failures
    assert "make venv" in bare.said("Say that it cannot")
    assert "pqlab' run" in bare.said(SAID)
    assert files(checkout) == before


def test_a_check_of_the_container_lab_brings_nothing_up(checkout: Path) -> None:
    (checkout / "compose").mkdir()
    script = checkout / "compose/lab.sh"
    script.write_text(
        f'#!/bin/sh\necho "lab.sh $*" >>{shlex.quote(str(checkout.parent / "asked"))}\nexit 1\n'
    )
    script.chmod(0o755)
    lab = ("-i", "inventories/lab.ini")
    played = playbook(checkout.parent, "run-scenario.yml", *lab, *SHORT, "--check", tree=checkout)
    assert played.code == 0, played.failures or played.text[-3000:]
    assert played.changed == []
    assert "would bring the container lab up (make lab-up), then run on localhost:" in played.said(SAID)
    assert [line for line in asked(checkout) if "lab.sh" in line] == ["lab.sh is-up"]


# ---------------------------------------------------------------------- files that an editor of Windows wrote


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_an_inventory_with_crlf_works_and_one_with_a_mark_is_refused(tmp_path: Path, mark: str) -> None:
    inventory = tmp_path / "mine.ini"
    text = (ROOT / "ansible/inventories/sim.ini").read_text().replace("\n", "\r\n")
    inventory.write_bytes((mark + text).encode())
    played = playbook(tmp_path, "provision.yml", "-i", str(inventory), "--check")
    assert (played.code == 0) == (mark == ""), played.failures
    said = played.said("Stop if the inventory begins with a byte order mark")
    assert ("mine.ini begins with a byte order mark" in said) == (mark != "")
    if mark:
        subprocess.run(["sh", "-c", re.findall(r"\((sed .*)\)", said)[0]], check=True)
        assert playbook(tmp_path, "provision.yml", "-i", str(inventory), "--check").code == 0


# ---------------------------------------------------------------------- the delivered inventory


def delivered(folder: Path, *, windows: bool) -> str:
    """inventory.ini with addresses where nobody answers, and its Windows lines taken in."""
    text = (ROOT / "inventory.ini").read_text()
    if windows:
        text, lines = re.subn(r"^#(?=[a-z_]+=)", "", text, flags=re.MULTILINE)
        assert lines == 3
    text = re.sub(r"REPLACE_WITH_\w+_USER", "nobody", text)
    text = re.sub(r"REPLACE_WITH_\w+", "127.0.0.1\nansible_port=9", text)
    (folder / "mine.ini").write_text(text)
    return str(folder / "mine.ini")


def variables(inventory: str) -> dict[str, dict[str, Any]]:
    command = ["ansible-inventory", "-i", inventory, "--list"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT / "ansible"
    )
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)["_meta"]["hostvars"]
    return found


def test_the_delivered_station_is_linux_and_three_lines_make_it_windows(tmp_path: Path) -> None:
    linux = variables(delivered(tmp_path, windows=False))
    windows = variables(delivered(tmp_path, windows=True))
    assert linux["pi"] == windows["pi"]
    more = {
        name: value for name, value in windows["groundstation"].items() if name not in linux["groundstation"]
    }
    assert more == {
        "pqlab_platform": "windows/amd64",
        "ansible_connection": "ssh",
        "ansible_shell_type": "powershell",
    }


def provisioned(folder: Path, *, windows: bool) -> Played:
    return playbook(folder, "provision.yml", "-i", delivered(folder, windows=windows), "--check")


def test_a_windows_station_is_told_of_before_it_is_touched(tmp_path: Path) -> None:
    played = provisioned(tmp_path, windows=True)
    assert played.said(STATION).strip() == SENTENCE
    on_station = [
        task for host, task, row in played.rows if host == "groundstation" and not row.get("skipped")
    ]
    assert on_station.index(STATION) < on_station.index("Ask the Windows host")
    linux = provisioned(tmp_path, windows=False)
    assert linux.said(STATION).strip() == ""
    assert "does not answer" in linux.said("Stop if the host was not provisioned")


def test_the_sentence_is_one_and_the_manual_repeats_it() -> None:
    manual = " ".join((ROOT / "docs/HARDWARE.md").read_text().split())
    assert SENTENCE in manual
    assert SENTENCE.endswith(".")
    assert len(re.findall(r"\.(\s|$)", SENTENCE)) == 1


# ---------------------------------------------------------------------- systemd and blanks


def test_healing_by_systemd_finds_a_checkout_with_blanks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd takes ExecStopPost apart as a shell would: unquoted, healing there would never have begun."""
    script = tmp_path / "Prüfstand im Büro/campaign.py"
    script.parent.mkdir()
    shutil.copy(ROOT / "ansible/roles/campaign/files/campaign.py", script)
    spec = importlib.util.spec_from_file_location("campaign", script)
    assert spec is not None
    assert spec.loader is not None
    campaign = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(campaign)
    begun: list[str] = []

    def unit(words: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        begun.extend(words)
        (tmp_path / "ein Ordner/begun.json").write_text("{}")
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(campaign, "systemd_options", lambda: ["--user"])
    monkeypatch.setattr(campaign.subprocess, "run", unit)
    campaign.begin(tmp_path / "ein Ordner", ["true"], [], tmp_path)
    after = next(word.partition("ExecStopPost=")[2] for word in begun if "ExecStopPost=" in word)
    assert shlex.split(after) == [sys.executable, str(script), "after", str(tmp_path / "ein Ordner")]
