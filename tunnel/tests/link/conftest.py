"""Tests of the native link (tunnel/link); they skip, with the reason, where its programs are not built."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # helper modules beside the tests
sys.path.insert(0, str(Path(__file__).parents[1] / "core"))  # the specification's helpers

if sys.platform == "win32":
    collect_ignore_glob = ["test_*.py"]  # the link is for Linux so far
