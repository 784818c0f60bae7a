"""A campaign on the pairs of an inventory: side by side, one that dies, the same command again, one merge."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pqevidence.errors import EXIT_ENVIRONMENT, EXIT_OK, EXIT_USAGE, LabError
from pqevidence.paths import project_root
from pqlab.campaign.store import write_json
from pqlab.cli import side_by_side
from pqlab.cli.main import build_parser, main
from pqlab.inventory import load_pairs
from pqlab.pairs import words
from pqlab.pairs.children import Children
from pqlab.pairs.folder import PairsFolder, open_campaign
from pqlab.pairs.screen import PlainScreen, drawn
from pqlab.pairs.status import campaign_status, pair_status, sentence

SIM = str(project_root() / "ansible" / "inventories" / "pairs-sim.ini")
LABS = str(project_root() / "ansible" / "inventories" / "pairs-lab.ini")
SUITE = "cs-mlkem768-aesgcm-mldsa65"
Json = dict[str, Any]


def asked(*more: str) -> argparse.Namespace:
    return build_parser().parse_args(["run", "smoke", "--inventory", LABS, *more])


def ordered(results: Path, *more: str) -> list[str]:
    """The command on three simulated pairs, a block each."""
    own = ["--inventory", SIM, "--suites", SUITE, "--session-s", "1", "--out", str(results), "--json"]
    return ["run", "smoke", "--reps", "3", *own, *more]


@pytest.fixture(autouse=True)
def sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pairs' controllers are processes of their own, and find this tree as this process does."""
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))


def dying(pair: str, script: str) -> Callable[[list[str]], list[str]]:
    """Controllers of which that of one pair is another program."""
    return lambda given: ["sh", "-c", script] if pair in given else words.command(given)


# --- what a pair's controller is called with ----------------------------------------------------


def test_every_pair_is_given_the_same_campaign_and_its_own_hosts(tmp_path: Path) -> None:
    args = asked(
        "--reps", "4", "--suites", "a*,b", "--with", "x", "--session-s", "2", "--busy-ok", "--strict"
    )
    one, two = (words.run_words(args, pair, tmp_path / "r") for pair in load_pairs(LABS))
    common = ["--inventory", LABS, "--pair", "pair_2", "--out", str(tmp_path / "r"), "--json"]
    scenario = ["smoke", "--session-s", "2.0", "--reps", "4", "--suites", "a*,b", "--with", "x"]
    assert two == ["run", *scenario, *common, "--settle-s", "60.0", "--strict", "--busy-ok"]
    assert [word for word in one if word != "pair_1"] == [word for word in two if word != "pair_2"]
    again = words.resume_words(args, load_pairs(LABS)[1], tmp_path / "r")
    assert again == ["resume", *common, "--settle-s", "60.0", "--strict", "--busy-ok"]
    for given in (one, again):  # what is built is what the command line takes
        build_parser().parse_args(given)


def test_every_option_of_run_is_passed_on_or_refused() -> None:
    """An option that `run` gets one day must not be lost on the way to the pairs."""
    known = set(vars(asked()))
    tables = (words._SCENARIO, words._LISTS, words._RUN, words._RACK, words._FLAGS)
    passed = {name for table in tables for name in table.values()}
    refused = {name for name, _ in words._NOT_FOR_PAIRS.values()}
    #: of this process itself, of the pair, and of `--dry-run`, which plans
    own = {"workers", "scheduler"}
    own |= {"scenario", "inventory", "out", "json", "pair", "dry_run", "source", "verb", "run", "parser"}
    assert passed | refused | own == known
    assert not passed & refused


def test_each_lab_has_its_number_and_other_hosts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB", "4")
    assert [words.environment(pair)["LAB"] for pair in load_pairs(LABS)] == ["1", "2"]
    assert "LAB" not in words.environment(load_pairs(SIM)[0])


@pytest.mark.parametrize(
    "option",
    [
        ["--share", "1/3"],
        ["--host-seed", "4"],
        ["--into", "x"],
        ["--only", "ab"],
        ["--junit", "f"],
        ["--place", "rack-1"],
        ["--reserve", "board=pi5"],
        ["--power", "f"],
    ],
)
def test_what_is_one_pairs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    assert main(ordered(tmp_path / "out", *option)) == EXIT_USAGE
    assert f"{option[0]} does not go with all pairs" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_more_pairs_than_blocks_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ordered(tmp_path / "out", "--reps", "2")) == EXIT_USAGE
    assert "2 blocks, too few for 3 shares" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# --- side by side --------------------------------------------------------------------------------


def test_a_pair_dies_and_the_same_command_resumes_it_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its blocks are missing until then, and both the merge and the error say so."""
    results = tmp_path / "out"
    monkeypatch.setattr(side_by_side, "command", dying("pair_2", "kill -9 $$"))
    assert main(ordered(results)) == EXIT_ENVIRONMENT
    out, err = capsys.readouterr()
    first = json.loads(out.splitlines()[-1])
    assert "pair_2 ended without its share: its controller was killed by SIGKILL" in err
    assert "1 of 3 blocks are missing (repetition 2): their pair gave no bundle" in err
    assert first["missing_repetitions"] == [2]
    assert first["error"]["what"] == "1 of 3 pairs ended without a sealed share: pair_2"
    assert "moved to no other pair" in first["error"]["why"]
    assert [row["died"] is not None for row in first["pairs"]] == [False, True, False]
    (folder,) = (results / "pairs").iterdir()
    told = json.loads((folder / "status.json").read_text())
    assert (told["state"], told["done"]) == ("ended", 2)
    assert main(["status", "--out", str(results)]) == EXIT_OK
    assert "pair_2: not begun" in capsys.readouterr().out

    monkeypatch.undo()
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    assert main(ordered(results)) == EXIT_OK
    out, err = capsys.readouterr()
    second = json.loads(out.splitlines()[-1])
    assert "pair_1 │ share 1/3 is sealed already" in err and "pair_2 │ share 2/3 begins" in err
    assert (second["missing_repetitions"], second["folder"]) == ([], first["folder"])
    for place in (0, 2):
        assert second["pairs"][place]["bundle"] == first["pairs"][place]["bundle"]
    assert second["verdict_counts"] == {"pass": 3}
    assert main(["verify", second["bundle"]]) == EXIT_OK
    assert (results / "latest").resolve().name == Path(second["bundle"]).name
    capsys.readouterr()

    # whole now: the same command is a new campaign
    (third,) = [open_campaign(results, told["campaign"], ["pair_1", "pair_2", "pair_3"])]
    assert third is None
    assert main(["status", "--out", str(results), "--json"]) == EXIT_OK
    assert json.loads(capsys.readouterr().out)["campaigns"] == []


def test_one_share_is_no_merge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = {"error": {"what": "no agent", "why": "away", "hint": "make lab-up"}}
    script = f"echo '{json.dumps(error)}'; exit 4"

    def command(given: list[str]) -> list[str]:
        return words.command(given) if "pair_1" in given else ["sh", "-c", script]

    monkeypatch.setattr(side_by_side, "command", command)
    assert main(ordered(tmp_path / "out")) == EXIT_ENVIRONMENT
    out, err = capsys.readouterr()
    assert "pair_3 ended without its share: no agent: away; next: make lab-up" in err
    assert "no merge yet: pair_2, pair_3 left no share" in err
    found = json.loads(out.splitlines()[-1])
    assert (found["bundle"], found["missing_repetitions"]) == (None, None)
    assert not (tmp_path / "out" / "latest").exists()


def test_the_merge_once_more_is_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pair that dies again leaves the merge that is there; only a whole one closes the campaign."""
    monkeypatch.setattr(side_by_side, "command", dying("pair_3", "exit 0"))
    documents = []
    for _ in range(2):
        assert main(ordered(tmp_path / "out")) == EXIT_ENVIRONMENT
        documents.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
    assert documents[0]["bundle"] == documents[1]["bundle"]
    assert documents[1]["pairs"][2]["died"] == "its controller ended with 0 and no word"


def test_two_processes_do_not_carry_out_one_campaign(tmp_path: Path) -> None:
    document = {"campaign": "c", "scenario": "s", "pairs": ["pair_1"], "merged": None}
    folder = PairsFolder.begin(tmp_path, "x", document)
    assert not folder.held()
    folder.lock()
    assert folder.held()
    with pytest.raises(LabError, match="is being carried out by another pqlab"):
        PairsFolder(folder.root, document).lock()


# --- children ------------------------------------------------------------------------------------


def test_lines_of_several_controllers_stay_whole() -> None:
    """Each prints a line in two halves, with a pause between them."""
    script = (
        "for n in 1 2 3; do printf 'one-' >&2; sleep 0.05; echo half >&2; done; echo '{\"bundle\": \"b\"}'"
    )
    children, stream = Children(), io.StringIO()
    for pair in ("pair_1", "pair_10"):
        children.start(pair, ["sh", "-c", script], {"PATH": "/usr/bin:/bin"})
    children.follow(PlainScreen(stream, len("pair_10")).tell, lambda: None)
    lines = stream.getvalue().splitlines()
    assert sorted(set(lines)) == ["pair_1  │ one-half", "pair_10 │ one-half"] and len(lines) == 6
    assert [child.why_dead() for child in children.all] == [None, None]
    assert children.all[0].document == {"bundle": "b"}


def test_asked_to_end_all_are_and_each_may_say_goodbye() -> None:
    children, told = Children(), list[str]()
    script = "trap 'echo kept >&2; exit 130' TERM; echo ready >&2; while :; do sleep 0.1; done"
    for pair in ("pair_1", "pair_2"):
        children.start(pair, ["sh", "-c", script], {"PATH": "/usr/bin:/bin"})

    def tell(pair: str, line: str) -> None:
        told.append(f"{pair} {line}")
        if sum(line.endswith("ready") for line in told) == 2:
            children.end()

    children.follow(tell, lambda: None)
    assert sorted(told)[::2] == ["pair_1 kept", "pair_2 kept"]
    assert [child.why_dead() for child in children.all] == ["it was stopped"] * 2


def test_looks_are_taken_while_a_controller_talks_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever reads `status.json` sees an old one for as long as it talks."""
    monkeypatch.setattr("pqlab.pairs.children.LOOK_S", 0.2)
    children, seen = Children(), list[str]()
    script = "for n in $(seq 40); do echo word >&2; sleep 0.05; done"
    children.start("pair_1", ["sh", "-c", script], {"PATH": "/usr/bin:/bin"})
    children.follow(lambda _, line: seen.append(line), lambda: seen.append("look"))
    talk = seen[seen.index("word") : len(seen) - seen[::-1].index("word")]
    assert talk.count("look") >= 5, seen


def test_no_controller_outlives_a_fault_of_whoever_follows() -> None:
    """A full disk under `status.json`, say: nobody would hear them any more, or end them."""
    children = Children()
    script = "trap 'echo kept >&2; exit 130' TERM; echo ready >&2; while :; do sleep 0.1; done"
    for pair in ("pair_1", "pair_2"):
        children.start(pair, ["sh", "-c", script], {"PATH": "/usr/bin:/bin"})
    told = list[str]()

    def full(pair: str, line: str) -> None:
        told.append(pair)
        if len(set(told)) == 2:
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"), children:
        children.follow(full, lambda: None)
    assert [child.process.poll() for child in children.all] == [130, 130]


# --- how far they are ----------------------------------------------------------------------------


def at_work(results: Path, pair: str, **more: Any) -> None:
    """A run in work of one pair, as its controller's files tell it."""
    run = results / pair / ".work" / "20260101T000000Z-abcdef"
    write_json(run / "data" / "plan.json", {"scenario": "s", "cells": []})
    status = {
        "run_id": run.name, "state": "running", "done": 3, "total": 9, "scenario": "s",
        "current": {"suite_id": "cs-x", "condition": "rekey", "repetition": 2}, "eta_s": 60.0, "error": None,
        "updated_utc": "2026-01-01T00:00:00Z", "verdict_counts": {"pass": 2, "fail": 1},
    }  # fmt: skip
    write_json(run / "status.json", {**status, **more})


def test_progress_of_all_pairs_is_in_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pqlab.campaign.store.Store.is_locked", lambda _self: True)
    names = ["pair_1", "pair_2", "pair_3"]
    folder = PairsFolder.begin(
        tmp_path, "x", {"campaign": "c", "scenario": "s", "pairs": names, "merged": None}
    )
    at_work(folder.root, "pair_1")
    at_work(folder.root, "pair_2", eta_s=90.0, current=None)
    now_ns = 1_767_225_610 * 10**9  # ten seconds after the status was written
    rows = [pair_status(folder, name, now_ns) for name in names]
    assert [row["state"] for row in rows] == ["running", "running", "not begun"]
    found = campaign_status(folder, rows, {"state": "running"})
    assert (found["done"], found["total"], found["eta_s"]) == (6, None, 80.0)
    assert found["verdict_counts"] == {"fail": 2, "pass": 4}
    assert sentence(rows[0]) == (
        "pair_1: running, 3 of 9 cells (1 fail, 2 pass), about 00:50 left; now cs-x rekey rep 2"
    )
    assert sentence(rows[2]) == "pair_3: not begun"
    console = Console(file=io.StringIO(), width=80)
    console.print(drawn(rows))
    assert isinstance(console.file, io.StringIO)
    board = console.file.getvalue()
    assert "pair_1 3/9" in board and "left 00:50" in board and "cs-x rekey rep 2" in board
    assert len(board.splitlines()) == 6


def test_a_pair_at_work_without_a_time_leaves_the_whole_without_one(tmp_path: Path) -> None:
    document = {"campaign": "c", "scenario": "s", "pairs": ["a", "b"], "merged": None}
    rows: list[Json] = [
        {"state": "running", "done": 1, "total": 2, "verdict_counts": {}, "eta_s": None},
        {"state": "running", "done": 1, "total": 2, "verdict_counts": {}, "eta_s": 5.0},
    ]
    assert campaign_status(PairsFolder(tmp_path, document), rows, {})["eta_s"] is None
    assert campaign_status(PairsFolder(tmp_path, document), rows[1:], {})["eta_s"] == 5.0


def test_what_is_still_to_do(tmp_path: Path) -> None:
    names = ["run", "resume", "nothing", "unnamed"]
    folder = PairsFolder(tmp_path, {"pairs": names})
    at_work(tmp_path, "resume")
    for name in ("nothing", "unnamed"):
        (tmp_path / name / "20260101T000000Z-abcdef").mkdir(parents=True)
        (tmp_path / name / "20260101T000000Z-abcdef" / "bagit.txt").touch()
    (tmp_path / "nothing" / "latest").symlink_to("20260101T000000Z-abcdef")
    assert [folder.todo(name) for name in names] == ["run", "resume", "nothing", "resume"]


# --- the plan ------------------------------------------------------------------------------------


def test_the_plan_says_each_pairs_time_and_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "smoke", "--reps", "5", "--suites", SUITE, "--inventory", SIM]
    assert main(words) == EXIT_OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("share 1/3 on pair pair_1: repetition 1 of 5, 1 cell, about ")
    assert lines[3].startswith("share 3/3 on pair pair_3: repetitions 4 to 5 of 5, 2 cells, about ")
    assert "side by side about" in lines[4] and "one after another about" in lines[4]
    assert main([*words, "--json"]) == EXIT_OK
    found = json.loads(capsys.readouterr().out)
    times = [pair["budget"]["eta_s"] for pair in found["pairs"]]
    assert (found["total"]["eta_s"], found["total"]["alone"]["eta_s"]) == (max(times), sum(times))
    assert found["one_machine"] is None
    assert sorted(c["repetition"] for pair in found["pairs"] for c in pair["cells"]) == [1, 2, 3, 4, 5]


def test_the_plan_of_labs_says_that_they_share_a_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "smoke", "--reps", "2", "--inventory", LABS]) == EXIT_OK
    assert (
        "pair_1, pair_2 are container labs of one machine: they count as one host" in capsys.readouterr().out
    )
