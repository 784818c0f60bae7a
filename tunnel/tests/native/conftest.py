"""Tests of the native core; they skip, with the reason, where its wheel is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # helper modules beside the tests
