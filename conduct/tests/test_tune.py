# ruff: noqa: E501 - a row of a table stays on its line
"""Tune and untune on a machine made of files: what is wished is set, and exactly what was there comes back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pqevidence.errors import LabError
from pqlab.cli.main import main
from pqlab.doctor import REQUIREMENTS, tuning
from pqlab.doctor.system import CommandResult, System

CPU = "sys/devices/system/cpu"
GOVERNORS = [f"{CPU}/cpu{n}/cpufreq/scaling_governor" for n in (0, 1)]
NO_TURBO = f"{CPU}/intel_pstate/no_turbo"
RMEM, WMEM = "proc/sys/net/core/rmem_max", "proc/sys/net/core/wmem_max"
BEFORE = {GOVERNORS[0]: "powersave", GOVERNORS[1]: "schedutil", NO_TURBO: "0", RMEM: "212992", WMEM: "212992"}
AFTER = {
    GOVERNORS[0]: "performance",
    GOVERNORS[1]: "performance",
    NO_TURBO: "1",
    RMEM: "4194304",
    WMEM: "4194304",
}


@pytest.fixture
def system(tmp_path: Path) -> System:
    root = tmp_path / "root"
    for path, text in BEFORE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text + "\n")
    return System(tmp_path, root, command=lambda arguments: CommandResult(None, "", "none"))


def held(system: System) -> dict[str, str]:
    return {path: system.text(path).strip() for path in BEFORE}


def test_what_was_there_comes_back_exactly(system: System, tmp_path: Path) -> None:
    state = tmp_path / "run" / "tune.json"
    set_ = tuning.tune(REQUIREMENTS, system, state)
    assert held(system) == AFTER
    assert {row.path: (row.done, row.before, row.now) for row in set_} == {
        path: ("set", BEFORE[path], AFTER[path]) for path in BEFORE
    }
    given_back = tuning.untune(system, state)
    assert held(system) == BEFORE
    assert [row.path for row in given_back] == [row.path for row in reversed(set_)]
    assert {row.done for row in given_back} == {"restored"}
    assert not state.exists()
    assert tuning.untune(system, state) == []


def test_a_second_tune_changes_nothing_and_remembers_the_first_values(system: System, tmp_path: Path) -> None:
    state = tmp_path / "tune.json"
    tuning.tune(REQUIREMENTS, system, state)
    remembered = state.read_text()
    again = tuning.tune(REQUIREMENTS, system, state)
    assert {row.done for row in again} <= {"kept"}
    assert state.read_text() == remembered
    system.write(RMEM, "300000")  # somebody in between
    tuning.tune(REQUIREMENTS, system, state)
    tuning.untune(system, state)
    assert held(system) == BEFORE


def test_a_larger_buffer_and_a_driver_without_performance_are_left_alone(
    system: System, tmp_path: Path
) -> None:
    system.write(RMEM, "67108864")
    (system.root / CPU / "cpu1/cpufreq/scaling_available_governors").write_text("ondemand powersave\n")
    tuning.tune(REQUIREMENTS, system, tmp_path / "tune.json")
    assert held(system) == {**AFTER, RMEM: "67108864", GOVERNORS[1]: "schedutil"}


def test_what_somebody_set_since_stays_until_forced(system: System, tmp_path: Path) -> None:
    state = tmp_path / "tune.json"
    tuning.tune(REQUIREMENTS, system, state)
    system.write(GOVERNORS[0], "ondemand")
    rows = {row.path: row for row in tuning.untune(system, state)}
    assert rows[GOVERNORS[0]].done == "left"
    assert "ondemand" in rows[GOVERNORS[0]].detail
    assert held(system) == {**BEFORE, GOVERNORS[0]: "ondemand"}
    assert [change.path for change in tuning.read_state(state)] == [GOVERNORS[0]]
    assert [row.done for row in tuning.untune(system, state, force=True)] == ["restored"]
    assert held(system) == BEFORE
    assert not state.exists()


def test_a_tune_that_dies_halfway_can_be_taken_back(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "tune.json"
    real = System.write
    writes: list[str] = []

    def dying(self: System, path: str, text: str) -> None:
        if len(writes) == 2:
            raise KeyboardInterrupt
        writes.append(path)
        real(self, path, text)

    monkeypatch.setattr(System, "write", dying)
    with pytest.raises(KeyboardInterrupt):
        tuning.tune(REQUIREMENTS, system, state)
    monkeypatch.setattr(System, "write", real)
    assert held(system) != BEFORE
    assert {row.done for row in tuning.untune(system, state)} == {"restored"}
    assert held(system) == BEFORE


def test_what_the_kernel_refuses_is_said_and_not_remembered(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "tune.json"
    real = System.write

    def refusing(self: System, path: str, text: str) -> None:
        if path == NO_TURBO:
            raise PermissionError(1, "Operation not permitted")
        real(self, path, text)

    monkeypatch.setattr(System, "write", refusing)
    rows = {row.path: row for row in tuning.tune(REQUIREMENTS, system, state)}
    assert (rows[NO_TURBO].done, rows[NO_TURBO].detail) == ("refused", "Operation not permitted")
    assert NO_TURBO not in {change.path for change in tuning.read_state(state)}


def test_a_value_that_did_not_take_is_a_refusal(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(System, "write", lambda self, path, text: None)
    rows = tuning.tune(REQUIREMENTS, system, tmp_path / "tune.json")
    assert {row.done for row in rows} == {"refused"}
    assert "kept powersave" in next(row.detail for row in rows if row.path == GOVERNORS[0])


def test_nothing_is_set_that_could_not_be_remembered(system: System, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="cannot be written"):
        tuning.tune(REQUIREMENTS, system, tmp_path / "file" / "tune.json")
    assert held(system) == BEFORE


def test_a_strange_state_file_is_refused(system: System, tmp_path: Path) -> None:
    state = tmp_path / "tune.json"
    for text in (
        "{",
        '{"schema": "other/v1", "changes": []}',
        '{"schema": "pqlab/tune/v1", "changes": [{"x": 1}]}',
    ):
        state.write_text(text)
        with pytest.raises(LabError, match="cannot be read"):
            tuning.untune(system, state)


def test_the_chosen_one_of_a_file_of_choices(tmp_path: Path) -> None:
    (tmp_path / "enabled").write_text("always [madvise] never\n")
    assert tuning.value(System(tmp_path, tmp_path), "enabled") == "madvise"


def test_untune_without_tune_is_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["untune", "--state", str(tmp_path / "none.json")]) == 0
    assert "nothing was tuned" in capsys.readouterr().out
    assert main(["untune", "--json", "--state", str(tmp_path / "none.json")]) == 0
    assert json.loads(capsys.readouterr().out)["outcomes"] == []
