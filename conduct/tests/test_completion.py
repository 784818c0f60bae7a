"""`pqlab completion`: every verb and option in every shell; names as they are in the checkout when asked."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pqlab.cli import completion
from pqlab.cli.main import VERBS, main
from tools import ended
from waiting import LIMIT_S

SHELLS = ("bash", "zsh", "fish")


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_every_verb_and_every_option_is_known(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    known = list(completion.verbs())
    assert [verb.name for verb in known] == list(VERBS)
    for verb in known:
        lines = [line for line in text.splitlines() if verb.name in line]
        assert lines, verb.name
        for option in verb.options:
            spelled = option if shell != "fish" else option.lstrip("-")
            assert spelled in (text if shell == "zsh" else "\n".join(lines)), (verb.name, option)


def test_a_shell_that_is_none_of_them_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert main(["completion", "bash", "--json"]) == 0
    assert "_pqlab" in json.loads(capsys.readouterr().out)["script"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        (["re"], ["resume", "report", "recording"]),
        (["run", "so"], ["soak"]),
        (["run", "smoke", "--with", ""], ["rekey-1s"]),
        (["run", "smoke", "--dry"], ["--dry-run"]),
        (["run", "smoke", "--reps", ""], []),
        (["run", "--dry-run", "so"], ["soak"]),
        (["verify", "--h"], ["--help"]),
        (["verify", ""], ["20260101T000000Z-aaaaaa"]),
        (["resume", ""], ["20260102T000000Z-bbbbbb"]),
        (["report", "--out", ""], []),
        (["list", "b"], ["bundles"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
    ],
)
def test_bash_offers(
    checkout: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, line: list[str], offered: list[str]
) -> None:
    file = tmp_path / "completion.bash"
    file.write_text(script("bash", capsys))
    asked = (
        'set -u; source "$1"; shift; COMP_WORDS=(./pqlab "$@"); COMP_CWORD=$#; _pqlab; '
        '[ "${#COMPREPLY[@]}" -eq 0 ] || printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = ended(["bash", "-c", asked, "bash", str(file), *line], LIMIT_S)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.split() == offered


def test_a_scenario_made_later_is_offered_by_the_same_script(
    checkout: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "completion.bash"
    file.write_text(script("bash", capsys))
    (checkout / "scenarios/mine.yml").touch()
    command = ["bash", "-c", 'source "$1"; _pqlab_names scenarios', "bash", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout.split() == ["mine", "smoke", "soak"]
