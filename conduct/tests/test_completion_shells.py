"""`pqlab completion` in the shells themselves: what zsh and fish offer for what somebody typed.

zsh completes at a terminal alone, so it gets a pseudo-terminal; nothing is typed there, its line editor is
given the line when it begins.
"""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pqlab.cli import completion
from pqlab.cli.main import VERBS, main
from tools import ended, needed
from waiting import LIMIT_S

ENVIRONMENT = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
RUN_ID, WORK_ID = "20260101T000000Z-aaaaaa", "20260102T000000Z-bbbbbb"

#: zsh's completion as its users have it, but that each match goes into a file, and the shell ends after one
_ZSHRC = """
PS1=
autoload -Uz compinit
compinit -u -D
source {script}
compadd() {{
    local -a _taken
    # where the function of a completion only asks, nothing is offered yet
    if [[ " ${{(pj: :)@[1,(i)(-|--)]}} " == *' -'[OAD]' '* ]]; then
        builtin compadd "$@"
        return
    fi
    builtin compadd -O _taken "$@"
    [ ${{#_taken}} -eq 0 ] || print -rl -- "${{_taken[@]}}" >>{offered}
    builtin compadd "$@"
}}
zle -C ask list-choices _main_complete
zle-line-init() {{
    BUFFER={line}
    CURSOR=${{#BUFFER}}
    zle ask
    print -r -- end >>{offered}
    exit
}}
zle -N zle-line-init
"""


@pytest.fixture
def script(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", request.param]) == 0
    file = tmp_path / f"completion.{request.param}"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    return file


def zsh(line: str, script: Path, tree: Path) -> list[str]:
    """What zsh offers at the end of the line."""
    program, home = needed("zsh"), script.parent / "home"
    home.mkdir()
    offered = home / "offered"
    words = {"script": script, "offered": offered, "line": completion.quote(line)}
    (home / ".zshrc").write_text(_ZSHRC.format(**words), encoding="utf-8")
    ours, theirs = pty.openpty()
    # no start-up file but this one, whatever the machine has; its terminal is not the tests' own
    process = subprocess.Popen(
        [program, "-d", "-i"],
        cwd=tree,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**ENVIRONMENT, "HOME": str(home), "ZDOTDIR": str(home), "TERM": "dumb"},
    )
    os.close(theirs)
    told = b""
    try:
        with contextlib.suppress(OSError):  # how the end of the other side of a terminal reads
            while select.select([ours], [], [], LIMIT_S)[0] and (part := os.read(ours, 65536)):
                told += part
        process.wait(LIMIT_S)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert offered.is_file(), told.decode(errors="replace")
    *found, last = offered.read_text(encoding="utf-8").splitlines()
    assert last == "end", told.decode(errors="replace")
    return found


def fish(line: str, script: Path, tree: Path) -> list[str]:
    """What fish offers at the end of the line."""
    asked = f"source {completion._fish_quote(str(script))}; complete -C {completion._fish_quote(line)}"
    done = ended(
        [needed("fish"), "--no-config", "-c", asked],
        LIMIT_S,
        cwd=tree,
        env={**ENVIRONMENT, "HOME": str(script.parent)},
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return [row.partition("\t")[0] for row in done.stdout.splitlines()]


BOTH = pytest.mark.parametrize(
    ("script", "offers"), [("zsh", zsh), ("fish", fish)], indirect=["script"], ids=["zsh", "fish"]
)
Offers = Callable[[str, Path, Path], list[str]]


@BOTH
@pytest.mark.parametrize(
    ("line", "due"),
    [
        ("./pqlab ru", {"run"}),
        ("pqlab ru", {"run"}),
        ("./pqlab re", {"resume", "report", "recording"}),
        ("./pqlab run so", {"soak"}),
        ("./pqlab run ", {"smoke", "soak"}),
        ("./pqlab run --dry-run so", {"soak"}),
        ("./pqlab run smoke --with ", {"rekey-1s"}),
        ("./pqlab run smoke --dry", {"--dry-run"}),
        ("./pqlab run smoke --reps ", set()),
        ("./pqlab verify ", {RUN_ID}),
        ("./pqlab verify --h", {"--help"}),
        ("./pqlab resume ", {WORK_ID}),
        ("./pqlab list b", {"bundles"}),
        ("./pqlab export t", {"tlog"}),
        ("./pqlab export tlog 2", {RUN_ID}),
        ("./pqlab compare x 2", {RUN_ID}),
        ("./pqlab report --out not", {"notes.txt"}),
        ("./pqlab completion ", {"bash", "fish", "zsh"}),
    ],
)
def test_it_offers(checkout: Path, script: Path, offers: Offers, line: str, due: set[str]) -> None:
    assert set(offers(line, script, checkout)) == due


@BOTH
def test_every_verb_is_offered_first(checkout: Path, script: Path, offers: Offers) -> None:
    assert set(offers("./pqlab ", script, checkout)) == set(VERBS)


@BOTH
@pytest.mark.parametrize("verb", VERBS)
def test_every_option_of_every_verb(checkout: Path, script: Path, offers: Offers, verb: str) -> None:
    options = next(known.options for known in completion.verbs() if known.name == verb)
    due = {option for option in options if option.startswith("--")}
    assert set(offers(f"./pqlab {verb} --", script, checkout)) == due
