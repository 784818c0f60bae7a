"""Lets these tests import the helper modules beside them, and gives them the large bundle."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from all_suites import bundle_of_all_suites

__all__ = ["bundle_of_all_suites"]
