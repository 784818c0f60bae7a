"""Is a folder safe to read as a bundle? Asked before anything of a stranger's bundle is opened.

A pipe would be waited for without end, a link leads out of the bundle, a device or a file of many gigabytes
fills the memory. Nothing but names and sizes is looked at here.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pqevidence.bundle.bag import BagError

#: the largest file of a run is a ledger of a bulk ladder, some 200 MB
MAX_FILE_BYTES = 1 << 30
#: a campaign of 72 suites × 3 conditions × 3 repetitions has some 10,000
MAX_FILES = 1_000_000
#: files in one folder: a cell has some twenty, a recording of energy some hundred
MAX_FOLDER_FILES = 10_000


def unsafe(root: Path) -> list[str]:
    """What must not be opened, one line each, in the order of names; [] when every entry is a plain file of
    at most 1 GiB or a folder. `root` itself may be reached through a link (results/latest is one)."""
    found: list[str] = []
    seen = 0
    folders = [str(root)]
    while folders:
        folder = folders.pop()
        with os.scandir(folder) as entries:
            rows = sorted(entries, key=lambda entry: entry.name)
        for entry in rows:
            seen += 1
            about = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(about.st_mode):
                folders.append(entry.path)
            elif not stat.S_ISREG(about.st_mode):
                found.append(f"{os.path.relpath(entry.path, root)} is neither file nor folder")
            elif about.st_size > MAX_FILE_BYTES:
                name = os.path.relpath(entry.path, root)
                found.append(f"{name} has {about.st_size} bytes, {MAX_FILE_BYTES} are the most")
        files = sum(not entry.is_dir(follow_symlinks=False) for entry in rows)
        if files > MAX_FOLDER_FILES:
            where = os.path.relpath(folder, root)
            return [*found, f"{where} holds {files} files, {MAX_FOLDER_FILES} are the most"]
        if seen > MAX_FILES:
            return [*found, f"more than {MAX_FILES} entries"]
    return found


def require_safe(root: Path) -> None:
    """Raises BagError naming the first entry that must not be opened."""
    found = unsafe(root)
    if found:
        raise BagError(
            f"{root.name} is not opened: {found[0]}", "a bundle holds plain files and folders only"
        )
