"""Lets the tests import the kit as a package, and the synthetic data of the lab's tests."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT / "tests", ROOT / "evidence" / "tests"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
