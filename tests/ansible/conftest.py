"""Tests of the playbooks and their roles."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # helper modules beside the tests
