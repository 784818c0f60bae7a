"""Who started this process, asked before anything else is imported: by then a parent may be gone."""

import os
import sys
from typing import Final

PARENT: Final = 0 if sys.platform == "win32" else os.getppid()
"""0 on Windows, where a number outlives its process: there the parent's job object ends us, and its pipe."""


def is_gone() -> bool:
    """Has the process that started us ended? Never on Windows: see PARENT."""
    return sys.platform != "win32" and os.getppid() != PARENT
