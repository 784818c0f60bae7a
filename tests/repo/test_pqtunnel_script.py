"""`./pqtunnel bench`: which folders reach the container, under which names; the engine here only notes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tools import ended
from waiting import LIMIT_S

ROOT = Path(__file__).resolve().parents[2]
ENGINE = '#!/bin/sh\n[ "$1" = image ] && exit 0\nprintf "%s\\n" "$@" > "$NOTED"\n'


class Script:
    """The script in a folder of its own, beside an engine that writes down what it is asked to do."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "the lab"
        self.here = folder / "some where"
        self.home.mkdir()
        self.here.mkdir()
        shutil.copy(ROOT / "pqtunnel", self.home / "pqtunnel")
        (folder / "docker").write_text(ENGINE)
        (folder / "docker").chmod(0o755)
        self.noted = folder / "noted"
        self.environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "NOTED": str(self.noted)}

    def run(self, *words: str) -> tuple[int, list[str]]:
        done = ended([self.home / "pqtunnel", *words], LIMIT_S, cwd=self.here, env=self.environment)
        return done.returncode, self.noted.read_text().splitlines() if self.noted.exists() else []


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


def after(words: list[str], option: str) -> list[str]:
    return [words[i + 1] for i, word in enumerate(words[:-1]) if word == option]


@pytest.mark.parametrize("spelling", [["--out", "my runs/one"], ["--out=my runs/one"]])
def test_the_named_folder_is_made_and_mounted(script: Script, spelling: list[str]) -> None:
    code, words = script.run("bench", "--count", "20", *spelling, "--only", "kem/ML*")
    folder = script.here / "my runs" / "one"
    assert code == 0 and folder.is_dir() and after(words, "-v") == [f"{folder}:/bench"]
    tool = words[words.index("pqlab/tunnel:dev") + 1 :]
    assert tool == ["bench", "--out", "/bench", "--count", "20", "--only", "kem/ML*"]
    assert after(words, "--network") == ["none"] and "--read-only" in words and "--device" not in words


def test_without_a_name_results_go_to_results_bench(script: Script) -> None:
    code, words = script.run("bench")
    assert code == 0 and after(words, "-v") == [f"{script.home / 'results' / 'bench'}:/bench"]


def test_help_makes_no_folder(script: Script) -> None:
    code, words = script.run("bench", "--help")
    assert code == 0 and words[-1] == "--help" and not (script.home / "results").exists()


def test_power_settings_come_with_their_folder_where_the_calibration_lies(script: Script) -> None:
    _, words = script.run("bench", "--mode", "energy", "--power", "model", "--power-settings", "chip/p.json")
    assert f"{script.here / 'chip'}:/power:ro" in after(words, "-v")
    assert after(words, "--power-settings") == ["/power/p.json"]


def test_an_option_without_its_path_is_refused(script: Script) -> None:
    assert script.run("bench", "--out") == (2, [])


def test_every_other_verb_has_the_keys_and_nothing_else(script: Script) -> None:
    code, words = script.run("suites", "--out", "x")
    assert code == 0 and after(words, "-v") == [f"{script.home / 'keys'}:/keys"]
    assert words[-3:] == ["suites", "--out", "x"]
    assert (script.home / "keys").stat().st_mode & 0o777 == 0o700
