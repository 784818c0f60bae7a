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
import threading
from pathlib import Path
from typing import Final

import pqbase
import pqtunnel
from pqbase.documents import Json, rows_of
from pqtunnel.errors import SelfTestFailed

# It ends a hang, it judges no speed: an emulated processor needs minutes for the three SPHINCS+ vectors.
TIMEOUT_S: Final = 900.0


_ONCE: Final = threading.Lock()
_REPORT: Json = {}


def selftest(timeout_s: float = TIMEOUT_S) -> Json:
    """The report of this process's one self-test: run at the first call, remembered for every other.

    Callers in other threads wait for the one that runs it: the libraries cannot change under a living
    process, and two tests at once would only slow each other down. As `run_selftest` otherwise.
    """
    with _ONCE:
        if not _REPORT:
            _REPORT.update(run_selftest(timeout_s))
        return dict(_REPORT)


def run_selftest(timeout_s: float = TIMEOUT_S) -> Json:
    """Run every known-answer test in a child process, now.

    Returns {"ok": bool, "items": [{"name", "ok", "detail"}]}; an item whose `ok` is null belongs to a
    primitive that this host does not have (`detail` says why) and does not make the whole false. Raises
    SelfTestFailed when the child itself could not run to its end.
    """
    roots = [str(Path(file).resolve().parents[1]) for file in (pqbase.__file__, pqtunnel.__file__)]
    search_path = os.pathsep.join([*roots, *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        child = subprocess.run(
            [sys.executable, "-m", "pqtunnel.kat"],
            stdin=subprocess.DEVNULL,  # ours may be no handle of Windows that a child can be given
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


def failed_primitives(report: Json) -> dict[str, str]:
    """Token → detail of every primitive whose known answer did not come out."""
    return {
        str(item["name"]).split("/")[1]: str(item["detail"])
        for item in rows_of(report, "items")
        if item["ok"] is False and "/" in str(item["name"])
    }
