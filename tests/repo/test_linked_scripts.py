"""The scripts at the root work through a link that lies elsewhere, such as one in ~/bin."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tools import ended
from waiting import LIMIT_S

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("pqlab", "pqtunnel", "pqdetect")
#: what each of them begins with in its checkout: the environment, the engine, the interpreter
TOOL = '#!/bin/sh\nprintf "%s\\n" "$0 $*" >>"$NOTED"\n'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What the scripts need of a checkout, in a folder with a blank; every tool of it only notes its call."""
    home = tmp_path / "the lab"
    (home / ".venv/bin").mkdir(parents=True)
    for script in SCRIPTS:
        shutil.copy(ROOT / script, home / script)
    for tool in (home / "bootstrap.sh", home / ".venv/bin/python", tmp_path / "docker"):
        tool.write_text(TOOL)
        tool.chmod(0o755)
    return home


def told(tree: Path, argv: list[str], cwd: Path) -> str:
    """What was called from the script, by whatever name it was begun."""
    noted = tree.parent / "noted"
    path = f"{tree.parent}:{tree.parent / 'bin'}:{os.environ['PATH']}"
    done = ended(argv, LIMIT_S, cwd=cwd, env={**os.environ, "PATH": path, "NOTED": str(noted)})
    assert done.returncode == 0, done.stderr
    return noted.read_text()


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("kind", ["absolute", "relative", "of a link", "found in PATH"])
def test_it_finds_its_checkout(tree: Path, tmp_path: Path, script: str, kind: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    link = folder / script
    link.symlink_to(tree / script if kind != "relative" else Path("..") / tree.name / script)
    if kind == "of a link":
        link = folder / "other name"
        link.symlink_to(script)
    argv = [script if kind == "found in PATH" else str(link), "suites"]
    text = told(tree, argv, tmp_path)
    if script == "pqlab":
        assert text.splitlines() == [f"{tree}/bootstrap.sh venv", f"{tree}/.venv/bin/python -m pqlab suites"]
    else:
        place = f"{tree}/keys:/keys" if script == "pqtunnel" else f"{tree}:/src:ro"
        assert f"-v {place}" in text


def test_a_link_to_the_folder_is_no_matter(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "lab").symlink_to(tree)
    assert "-m pqlab suites" in told(tree, [str(tmp_path / "lab/pqlab"), "suites"], tmp_path)
