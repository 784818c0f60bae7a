"""The second verifier as its user calls it, and where the two disagree on a bundle.

It is a program of its own (verifier/): the test image has it, and one that was just built in verifier/target
is tried instead where nothing of its sources is newer. There is no skip: a tree without it has no second
opinion.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pqevidence.verify import CheckResult

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "verifier"
BUILT = FOLDER / "target" / "release" / "pqverifier"
_LINE = re.compile(r"\[([x ])\] ([a-z_]+): (.*)")
#: its own bounds are tighter, and what is beyond them fails with these words
TOO_LARGE = "more than this verifier takes"
#: its checks of a part of what one of the first verifier's looks at → that one
PARTS = {"scenario_hash": "scenario_schema", "tables_core": "report_rebuild"}


def program() -> Path:
    """The program to try. RuntimeError with the command that makes one."""
    sources = [*FOLDER.glob("src/*.rs"), FOLDER / "Cargo.toml", FOLDER / "Cargo.lock"]
    if BUILT.is_file() and all(s.stat().st_mtime <= BUILT.stat().st_mtime for s in sources):
        return BUILT
    found = shutil.which("pqverifier")
    if found is None:
        raise RuntimeError(
            "there is no pqverifier here: the test image lacks it, and verifier/target has none of these "
            "sources; next: ./images/build.sh test, or cargo build --release --locked in verifier/"
        )
    return Path(found)


@dataclass(frozen=True)
class Opinion:
    """What it said: exit code, and for each check whether it holds and the sentence."""

    code: int
    checks: dict[str, tuple[bool, str]]
    last: str

    @property
    def failed(self) -> list[str]:
        """Names of the checks that do not hold."""
        return [name for name, (holds, _) in self.checks.items() if not holds]


def ask(root: Path, before: Callable[[], None] | None = None) -> Opinion:
    """Run it on a folder. before: called in the child before the program begins."""
    done = subprocess.run(
        [program(), root], capture_output=True, text=True, timeout=120, check=False, preexec_fn=before
    )
    assert done.returncode in (0, 5) and not done.stderr, f"{done.returncode}: {done.stderr or done.stdout}"
    *lines, last = done.stdout.splitlines()
    found = {}
    for line in lines:
        told = _LINE.fullmatch(line)
        assert told is not None, line
        found[told[2]] = (told[1] == "x", told[3])
    assert done.returncode == (5 if any(not holds for holds, _ in found.values()) else 0)
    return Opinion(done.returncode, found, last)


def disagreements(root: Path, results: Iterable[CheckResult]) -> list[str]:
    """Checks that both know and that hold for one alone, each with both sentences.

    Not compared: what the first did not look at because the scenario breaks its schema, which the second does
    not know; what is beyond the second's own bounds. A check of a part must not fail where the whole one
    holds.
    """
    ours, theirs = {result.name: result for result in results}, ask(root).checks
    found = []
    for name, (holds, told) in theirs.items():
        if (whole := ours.get(PARTS.get(name, name))) is None:
            continue
        fails = whole.status == "fail"
        if whole.observed.startswith("not looked at: the scenario") or (not holds and TOO_LARGE in told):
            continue
        if (not holds and not fails) if name in PARTS else holds == fails:
            found.append(f"{name}: {whole.status}, {whole.observed} | second: {told}")
    return found
