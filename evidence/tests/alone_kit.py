"""The exported checker in a Python of its own: isolated, without site-packages, nothing of this tree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from pqevidence.verify import CheckResult
from pqevidence.verify.export import export

BARE = [sys.executable, "-I", "-S"]
_LOOP = """
import json, sys
from dataclasses import asdict
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from pqevidence.verify import verify_bundle
for line in sys.stdin:
    print(json.dumps([asdict(result) for result in verify_bundle(Path(line.strip()))]), flush=True)
"""


class Alone:
    """One process that verifies many bundles; `ask` and `answer` apart, so that both can work at once."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "verify.pyz"
        export(self.file)
        self._process = subprocess.Popen(
            [*BARE, "-c", _LOOP, str(self.file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
        )

    def ask(self, root: Path) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{root}\n")
        self._process.stdin.flush()

    def answer(self) -> list[CheckResult]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the checker that stands alone has died"
        return [CheckResult(**row) for row in json.loads(line)]

    def __enter__(self) -> Alone:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=60)


def run_alone(file: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """The exported file as its user calls it."""
    command: list[Any] = [*BARE, str(file), *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd="/")
