"""Puts the helpers beside the tests on the path (pytest runs with importlib mode)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
