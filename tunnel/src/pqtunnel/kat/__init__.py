"""Known-answer self-test of every primitive this host has.

The answers of KEMs and signatures depend on randomness, so liboqs' generator is replaced by the one of the
known answers for the time of the test. That switch is global to a process: the test therefore always runs
in a child process, and the process that carries traffic never has its generator touched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from pqtunnel.errors import SelfTestFailed

TIMEOUT_S: Final = 120.0


def selftest(timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Run every known-answer test in a child process.

    Returns {"ok": bool, "items": [{"name", "ok", "detail"}]}; an item whose `ok` is null belongs to a
    primitive that this host does not have (`detail` says why) and does not make the whole false. Raises
    SelfTestFailed when the child itself could not run to its end.
    """
    package_root = str(Path(__file__).resolve().parents[2])
    search_path = os.pathsep.join(part for part in (package_root, os.environ.get("PYTHONPATH")) if part)
    try:
        child = subprocess.run(
            [sys.executable, "-m", "pqtunnel.kat"],
            capture_output=True,
            timeout=timeout_s,
            check=False,
            env={**os.environ, "PYTHONPATH": search_path},
        )
    except subprocess.TimeoutExpired as error:
        raise SelfTestFailed(f"the self-test did not end within {timeout_s:.0f} s") from error
    try:
        report = json.loads(child.stdout)
    except json.JSONDecodeError as error:
        tail = child.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise SelfTestFailed(
            f"the self-test ended with status {child.returncode}: {' '.join(tail)}"
        ) from error
    if not isinstance(report, dict):
        raise SelfTestFailed("the self-test printed something that is not its report")
    return report


def failed_primitives(report: dict[str, Any]) -> dict[str, str]:
    """Token → detail of every primitive whose known answer did not come out."""
    return {
        str(item["name"]).split("/")[1]: str(item["detail"])
        for item in report["items"]
        if item["ok"] is False and "/" in str(item["name"])
    }
