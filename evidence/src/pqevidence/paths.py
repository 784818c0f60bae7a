"""Where the project's own folders are, whatever folder a command was started in."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

_MARKERS = ("scenarios", "ansible", "evidence")


def project_root(start: Path | None = None) -> Path:
    """The checkout: nearest folder upwards with its marker folders, else where this package lies."""
    for first in (start or Path.cwd(), Path(__file__).resolve()):
        for folder in (first, *first.parents):
            if all((folder / marker).is_dir() for marker in _MARKERS):
                return folder
    return start or Path.cwd()


def shown(path: Path) -> str:
    """A path as a user would type it here: relative where that is shorter."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return str(path)
    return relative if len(relative) < len(str(path)) else str(path)


def results_dir(out: str | None) -> Path:
    """The results folder: `--out`, else `results` of the checkout."""
    return Path(out).resolve() if out else project_root() / "results"


def out_option(results: Path) -> str:
    """The option that a command needs to find that folder again: ` --out DIR`, nothing for the default."""
    return "" if results == results_dir(None) else f" --out {shlex.quote(shown(results))}"
