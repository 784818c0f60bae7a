"""MAVProxy on Windows as a service: without the console, the windows and the line editor it takes for given.

Its own start there loads a prompt that needs a terminal, and windows of wx, also with --daemon. Nothing of
its forwarding is touched.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from types import ModuleType


class _NoPrompt:
    """In the place of MAVProxy.modules.lib.rline.rline."""

    def __init__(self, prompt: str, state: object) -> None:
        state.completion_functions = {}  # type: ignore[attr-defined]  # its modules add theirs

    def set_prompt(self, prompt: str) -> None:
        """There is nobody to see it."""


def main() -> None:
    """Run it with our own arguments."""
    editor = ModuleType("MAVProxy.modules.lib.rline")
    editor.rline = _NoPrompt  # type: ignore[attr-defined]
    sys.modules[editor.__name__] = editor
    # It takes wx for installed on every Windows machine.
    importlib.import_module("MAVProxy.modules.lib.mp_util").has_wxpython = False  # type: ignore[attr-defined]
    runpy.run_module("MAVProxy.mavproxy", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
