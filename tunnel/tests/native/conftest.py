"""Tests of the native core; they skip, with the reason, where its wheel is not installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore_glob: list[str] = []
if importlib.util.find_spec("pq_core") is None:
    collect_ignore_glob.append("test_core_*.py")
