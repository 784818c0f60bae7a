"""The command line: exit codes, JSON on the last line, errors as what / why / next. No lab is needed."""

from __future__ import annotations

import fcntl
import importlib
import json
import shutil
import signal
import time
from pathlib import Path
from typing import NoReturn
from unittest.mock import Mock

import pytest
from bundle_kit import last_json
from fake_agent import FakeLab
from report_bundle import make_bundle
from resume_kit import interrupted

from pqevidence.errors import LabError
from pqevidence.paths import project_root, shown
from pqevidence.scenario import Scenario
from pqlab.campaign.engine import Campaign, Surroundings
from pqlab.cli import plan
from pqlab.cli.main import main
from pqlab.cli.run import _portable, controller

NOWHERE = """\
[drone]
d pqlab_agent_host=127.0.0.1 pqlab_agent_port=9
[gcs]
g pqlab_agent_host=127.0.0.1 pqlab_agent_port=10
[all:vars]
pqlab_keys={keys}
"""


@pytest.fixture
def nowhere(tmp_path: Path) -> list[str]:
    """Options that lead to no lab and no keys."""
    file = tmp_path / "hosts.ini"
    file.write_text(NOWHERE.format(keys=tmp_path / "keys"))
    return ["--inventory", str(file), "--out", str(tmp_path / "results")]


def board(folder: Path) -> str:
    """An inventory of two machines in ring hardware."""
    file = folder / "hosts.ini"
    file.write_text(
        "[drone]\npi ansible_host=192.0.2.1\n[gcs]\npc ansible_host=192.0.2.2\n"
        "[all:vars]\npqlab_ring=hardware\n"
    )
    return str(file)


def test_validate_all_and_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate"]) == 0
    assert "baseline.yml: valid, 72 suites, 216 cells" in capsys.readouterr().out
    assert main(["validate", "smoke", "--json", "--reps", "2"]) == 0
    scenarios = last_json(capsys)["scenarios"]
    assert isinstance(scenarios, list)
    assert scenarios[0]["cells"] == 10


def test_a_bad_scenario_is_two_with_what_why_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "smoke", "--suites", "cs-mlkem786-aesgcm-mldsa65", "--json"]) == 2
    caught = capsys.readouterr()
    assert [line[:8] for line in caught.err.splitlines()] == ["error: -", "  why:  ", "  next: "]
    error = json.loads(caught.out.splitlines()[-1])["error"]
    assert error["code"] == "unknown-suite"
    assert "cs-mlkem768-aesgcm-mldsa65" in error["hint"]


def test_an_unknown_verb_or_option_is_two(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["hover"], ["run", "smoke", "--velocity", "9"], []):
        assert main(argv) == 2
        told = capsys.readouterr().err
        assert "usage: pqlab" in told and "\n  next: ./pqlab" in told
    assert main(["run", "smoke", "--max-fail", "0", "--json"]) == 2
    error = last_json(capsys)["error"]
    assert isinstance(error, dict)
    assert "'0' is not a whole number from 1 on" in error["what"]


@pytest.mark.parametrize(
    ("argv", "meant"),
    [
        (["repot"], "./pqlab report"),
        (["verfy", "x", "--json"], "./pqlab verify"),
        (["bench_report", "x"], "./pqlab bench-report"),
        (["run", "smoke", "--sesion-s", "3"], "--session-s"),
        (["run", "smoke", f"--dryrun={'1' * 30}"], "--dry-run"),
        (["run", "smok"], "`smoke`"),
        (["plan", "smoke", "--with", "rekey-2s"], "`rekey-1s`"),
    ],
)
def test_a_slip_of_the_pen_is_told_what_was_meant(
    argv: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    *_, following = capsys.readouterr().err.splitlines()
    assert following == f"  next: did you mean {meant}?"


def test_what_is_like_nothing_is_guessed_at_by_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["xyzzy"], ["run", "smoke", "--xyzzy"]):
        assert main(argv) == 2
        told = capsys.readouterr().err
        assert "did you mean" not in told and "--help" in told.splitlines()[-1]


def test_show_effective(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "smoke", "--effective", "--session-s", "3"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "traffic.session_s: 3.0 # --session-s" in lines
    assert any(line.startswith("handshake.count: 30 # ") and "smoke.yml:" in line for line in lines)
    assert "ledger: true # default" in lines
    assert main(["show", "smoke"]) == 0
    assert capsys.readouterr().out == (project_root() / "scenarios" / "smoke.yml").read_text()


def test_plan_without_a_lab(capsys: pytest.CaptureFixture[str], nowhere: list[str]) -> None:
    assert main(["plan", "baseline", "--json", *nowhere]) == 0
    plan = last_json(capsys)
    cells = plan["cells"]
    assert isinstance(cells, list)
    assert len(cells) == 216
    assert plan["cell_ids_unknown"]
    assert main(["plan", "smoke", *nowhere]) == 0
    text = capsys.readouterr().out
    assert "15 cells: 5 suites" in text
    assert "time: about 0" in text and "built-in table of primitive times" in text
    assert main(["plan", "smoke", "--dry-run", *nowhere]) == 4
    assert main(["run", "smoke", "--dry-run", *nowhere]) == 4
    assert "make keys" in capsys.readouterr().err


def test_a_plan_says_first_what_a_link_cannot_carry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nowhere: list[str]
) -> None:
    file = tmp_path / "narrow.yml"
    file.write_text(
        "schema: pqlab/scenario/v1\nname: narrow\nsuites: [cs-mlkem768-aesgcm-mldsa65]\n"
        "traffic: {source: embedded, session_s: 5}\n"
        "conditions: [{name: slow, link: {up: {rate_kbps: 100}}}, {name: wide, link: {}}]\n"
    )
    assert main(["plan", str(file), *nowhere]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2 cells: ") and lines[-1].startswith("[2] ")
    (told,) = (line for line in lines if line.startswith("beyond the link: "))
    assert "slow carries 100 kbit/s to the ground, traffic of 320 messages a second needs" in told
    assert main(["plan", str(file), "--json", *nowhere]) == 0
    assert last_json(capsys)["beyond_links"] == [told]


def test_run_without_keys_is_four_and_says_make_keys(
    capsys: pytest.CaptureFixture[str], nowhere: list[str]
) -> None:
    assert main(["run", "smoke", *nowhere]) == 4
    assert "make keys" in capsys.readouterr().err


def test_status_and_resume_with_nothing_there(capsys: pytest.CaptureFixture[str], nowhere: list[str]) -> None:
    out = nowhere[2:]
    assert main(["status", *out]) == 0
    assert "no run in work" in capsys.readouterr().out
    assert main(["resume", *nowhere]) == 4
    assert "no run is in work" in capsys.readouterr().err
    assert main(["resume", "20260101T000000Z-aaaaaa", *nowhere]) == 4
    assert main(["status", "20260101T000000Z-aaaaaa", *out]) == 4


def test_status_of_a_killed_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = FakeLab(tmp_path)
    status_file = interrupted(lab, 2, 3) / "status.json"
    status = json.loads(status_file.read_text())
    status_file.write_text(json.dumps({**status, "state": "running"}))  # as SIGKILL leaves it
    assert main(["status", "--json", "--out", str(lab.results)]) == 0
    runs = last_json(capsys)["runs"]
    assert isinstance(runs, list)
    assert (runs[0]["state"], runs[0]["done"], runs[0]["total"]) == ("killed", 1, 3)
    assert main(["status", "--out", str(lab.results)]) == 0
    printed = capsys.readouterr().out
    assert f"next: ./pqlab resume {runs[0]['run_id']} --out {shown(lab.results)}\n" in printed
    assert f"./pqlab discard {runs[0]['run_id']} --out {shown(lab.results)}\n" in printed


def killed_run(tmp_path: Path, *, at: int = 2) -> tuple[FakeLab, Path]:
    """A run that was stopped in its cell number `at`, and its work folder."""
    lab = FakeLab(tmp_path)
    return lab, interrupted(lab, at, 2)


def test_a_run_killed_just_before_its_seal_has_its_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab, work = killed_run(tmp_path)
    plan = json.loads((work / "data" / "plan.json").read_text())
    cells = work / "data" / "cells"
    (done,) = (folder for folder in cells.iterdir() if (folder / "record.json").is_file())
    for cell in plan["cells"]:
        if cell["cell_id"] != done.name:
            shutil.rmtree(cells / cell["cell_id"], ignore_errors=True)
            shutil.copytree(done, cells / cell["cell_id"])
    for name in ("status.json", "lock"):
        (work / name).unlink(missing_ok=True)
    out = ["--out", str(lab.results)]
    assert main(["status", *out]) == 0
    printed = capsys.readouterr().out
    assert "2 of 2 cells; 2 pass" in printed and "not sealed yet" in printed
    assert "discard" not in printed
    assert main(["discard", work.name, *out]) == 4, "another process may be sealing it"
    assert "./pqlab resume" in capsys.readouterr().err and work.is_dir()


def test_a_stopped_run_can_be_thrown_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab, work = killed_run(tmp_path)
    out = ["--out", str(lab.results)]
    with (work / "lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert main(["discard", work.name, *out]) == 4
        assert "another pqlab" in capsys.readouterr().err and work.is_dir()
    assert main(["discard", "20260101T000000Z-aaaaaa", work.name, *out]) == 4
    assert work.is_dir(), "nothing goes where one of them is unknown"
    capsys.readouterr()
    assert main(["discard", work.name, "--json", *out]) == 0
    assert last_json(capsys) == {"discarded": [{"run_id": work.name, "cells": 1}]}
    assert not work.exists()
    assert main(["status", *out]) == 0
    assert "no run in work" in capsys.readouterr().out


def test_a_sealed_run_is_not_thrown_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sealed = tmp_path / "20260101T000000Z-aaaaaa"
    sealed.mkdir()
    (sealed / "bagit.txt").write_text("BagIt-Version: 1.0\n")
    assert main(["discard", sealed.name, "--out", str(tmp_path)]) == 2
    assert "sealed" in capsys.readouterr().err and sealed.is_dir()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_controller_in_the_background_can_be_stopped(tmp_path: Path, number: signal.Signals) -> None:
    """A shell starts a background job with SIGINT ignored."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), controller(FakeLab(tmp_path).inventory()):
            signal.raise_signal(number)
            time.sleep(60.0)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_resume_of_a_sealed_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sealed = tmp_path / "20260101T000000Z-aaaaaa"
    sealed.mkdir()
    (sealed / "bagit.txt").write_text("BagIt-Version: 1.0\n")
    (tmp_path / "latest").symlink_to(sealed.name)
    assert main(["resume", sealed.name, "--out", str(tmp_path)]) == 2
    assert "sealed" in capsys.readouterr().err


def test_one_controller_a_lab(tmp_path: Path) -> None:
    """Whoever comes second is refused, whatever folder or copy of the keys it works from."""
    first, second = FakeLab(tmp_path / "a").inventory(), FakeLab(tmp_path / "b").inventory()
    with controller(first):
        with pytest.raises(LabError) as caught, controller(second):
            raise AssertionError("two controllers")
        assert (caught.value.code, caught.value.exit_code) == ("lab-busy", 4)
    with controller(second):
        pass


@pytest.mark.parametrize(
    ("argument", "portable"),
    [
        ("smoke", "smoke"),
        ("--reps", "--reps"),
        ("cs-mlkem*", "cs-mlkem*"),
        ("/srv/lab/results", "results"),
        ("--out=/srv/lab/results", "--out=results"),
        (str(project_root() / "scenarios" / "smoke.yml"), "scenarios/smoke.yml"),
    ],
)
def test_no_path_of_this_machine_enters_a_bundle(argument: str, portable: str) -> None:
    assert _portable(argument) == portable


def test_report_and_verify_without_a_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--out", str(tmp_path)]) == 4
    assert "make run SCENARIO=smoke" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "verify NONE", "report NONE", "compare NONE NONE", "archive NONE", "audit NONE", "status NONE",
        "resume NONE", "recording NONE --out OUT", "correct NONE --reason x --remark", "bench-report NONE",
        "bench-report NONE --check", "unpack NONE", "import-ladder NONE", "plan smoke --from NONE",
        "run smoke --into NONE", "export tlog NONE", "export pcapng NONE", "index NONE",
    ],
)  # fmt: skip
def test_no_such_bundle_is_one_code(tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    words = line.replace("NONE", str(tmp_path / "none")).replace("OUT", str(tmp_path / "out")).split()
    assert main(words) == 4
    told = capsys.readouterr().err
    assert told.startswith("error: ") and "\n  next: " in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["verify", "report", "plan", "live", "doctor"])
def test_ctrl_c_is_one_code(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module(f"pqlab.cli.{verb}"), "run", stop)
    assert main([verb, *(["smoke"] if verb == "plan" else [])]) == 130


def test_a_damaged_file_of_a_bundle_is_a_failed_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 5 as `verify` has it, which is the next command; not 4, which blames this machine."""
    root = make_bundle(tmp_path / "bundle")
    (root / "data" / "plan.json").write_text("{")
    assert main(["report", str(root), "--json"]) == 5
    error = last_json(capsys)["error"]
    assert isinstance(error, dict)
    assert error["code"] == "unreadable" and "plan.json" in error["what"] and "verify" in error["hint"]


def test_a_place_that_cannot_be_written_is_an_environment_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    root = make_bundle(tmp_path / "bundle")
    assert main(["report", str(root), "--out", str(blocked / "in"), "--json"]) == 4
    captured = capsys.readouterr()
    error = json.loads(captured.out.strip().splitlines()[-1])["error"]
    assert error["code"] == "os" and str(blocked) in error["what"] and error["why"] and error["hint"]
    assert "Traceback" not in captured.err


def test_options_of_validate_need_a_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--reps", "4"]) == 2
    assert "none is named" in capsys.readouterr().err
    assert main(["validate"]) == 0


@pytest.mark.parametrize(
    ("line", "ring", "origin"),
    [("", "hardware", "--inventory hosts.ini"), ("ring: lab\n", "lab", "here.yml")],
)
def test_the_inventory_says_the_ring_where_the_scenario_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, ring: str, origin: str
) -> None:
    """The same shipped scenario on a Raspberry Pi, by another inventory alone."""
    begun: list[Scenario] = []

    def begin(_around: Surroundings, scenario: Scenario) -> NoReturn:
        begun.append(scenario)
        raise LabError("seen", "seen", "seen", "seen")

    monkeypatch.setattr(Campaign, "begin", begin)
    file = tmp_path / "here.yml"
    file.write_text(f"schema: pqlab/scenario/v1\nextends: smoke\nname: here\n{line}")
    asked = ["run", str(file), "--inventory", board(tmp_path), "--out", str(tmp_path)]
    assert main(asked) == 4
    (scenario,) = begun
    assert scenario.ring == ring
    assert origin in scenario.origins["ring"]


def test_a_dry_run_asks_the_ends_for_the_ring_of_the_inventory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says whether a run could begin, so it must look at what a run looks at."""
    claimed: list[str] = []
    monkeypatch.setattr(plan, "tls_connector", lambda _inventory: Mock())
    monkeypatch.setattr(plan, "greet", lambda _pair: {"drone": {"providers": {}}, "gcs": {"providers": {}}})
    monkeypatch.setattr(plan, "check_pair", lambda _hello, scenario: claimed.append(scenario.ring))
    asked = ["--inventory", board(tmp_path), "--out", str(tmp_path / "results")]
    for line in (["plan", "smoke", "--dry-run"], ["run", "smoke", "--dry-run"]):
        assert main([*line, *asked]) == 0
    assert claimed == ["hardware", "hardware"]


def test_plan_of_the_simulation_needs_no_lab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory = str(project_root() / "ansible" / "inventories" / "sim.ini")
    sim = ["--inventory", inventory, "--out", str(tmp_path)]
    assert main(["plan", "smoke", "--dry-run", "--json", *sim]) == 0
    plan = last_json(capsys)
    cells = plan["cells"]
    assert isinstance(cells, list)
    assert plan["cell_ids_unknown"] is None and len({cell["cell_id"] for cell in cells}) == 15
    assert main(["run", "smoke", "--dry-run", *sim]) == 0
    assert "time: virtual" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    # what the simulation cannot carry is said before, as a run would say it
    assert main(["plan", "lossy-links", *sim]) == 2
    # and so is a filter that leaves nothing
    starts = {str(cell["cell_id"])[:4] for cell in cells}
    absent = next(f"{number:04x}" for number in range(16) if f"{number:04x}" not in starts)
    assert main(["plan", "smoke", "--only", absent, *sim]) == 4
    assert "no cell of scenario smoke" in capsys.readouterr().err


def test_a_report_of_a_damaged_bundle_is_five(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_bundle(tmp_path / "bundle")
    out = ["--out", str(tmp_path / "report")]
    assert main(["report", str(root), *out]) == 0
    plan = root / "data" / "plan.json"
    whole = plan.read_text(encoding="utf-8")
    for spoiled in ('{"cells": [{}]}', whole.replace('"condition"', '"conditon"'), "[" * 100_000):
        plan.write_text(spoiled, encoding="utf-8")
        assert main(["report", str(root), *out]) == 5
    plan.write_text(whole, encoding="utf-8")
    phi = root / "data" / "analysis" / "phi.csv"
    phi.write_text("\ufeff" + phi.read_text(encoding="utf-8"), encoding="utf-8")
    capsys.readouterr()
    assert main(["report", str(root), *out]) == 5
    told = capsys.readouterr().err
    assert "  why:  a file in it" in told and "  next: ./pqlab verify" in told


def test_no_report_goes_into_a_sealed_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_bundle(tmp_path / "bundle")
    (root / "tagmanifest-sha512.txt").touch()
    before = sorted(root.rglob("*"))
    for inside in (root, root / "data", root / "data" / "cells" / "new"):
        assert main(["report", str(root), "--out", str(inside)]) == 2
        assert "never written to" in capsys.readouterr().err
    assert sorted(root.rglob("*")) == before
