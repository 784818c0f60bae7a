"""Rekey runs: the tunnel's own rekey bench as a child, its JSON taken over."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from pqbase.documents import Json

SCRIPT: Final = Path("/opt/tunnel-bench/rekey.py")
LIMIT_S: Final = {False: 300.0, True: 3000.0}


def run(full: bool, script: Path = SCRIPT) -> Json:
    """Its runs; or why there are none."""
    if not script.is_file():
        return {"missing": f"{script.name} is not in this image"}
    target = Path("/tmp/rekey.json")
    command = [sys.executable, str(script), "--json", str(target), *(["--full"] if full else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S[full], check=False)
    except subprocess.TimeoutExpired as error:
        return {"missing": f"{script.name} did not end within {error.timeout:.0f} s"}
    if not target.is_file():
        said = " ".join((done.stderr or done.stdout).split())[-400:]
        return {"missing": f"{script.name} ended with {done.returncode} and wrote nothing: {said}"}
    found: Json = json.loads(target.read_text())
    return found
