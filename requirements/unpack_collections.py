#!/usr/bin/env python3
"""Unpack the collections that this project uses from the `ansible` wheel: unpack_collections.py WHEEL FOLDER

The wheel holds about a hundred, half a gigabyte of them; pip would install all. FOLDER is a site-packages.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

#: community.docker needs the fourth
COLLECTIONS = (
    "ansible/posix",
    "community/general",
    "community/docker",
    "community/library_inventory_filtering_v1",
    "ansible/windows",
    "community/windows",
)
#: never imported
_LEFT_OUT = ("/tests/", "/changelogs/", "/docs/")


def wanted(name: str) -> bool:
    """Is this member of the wheel part of one of them?"""
    inside = tuple(f"ansible_collections/{collection}/" for collection in COLLECTIONS)
    return name.startswith(inside) and not any(part in name for part in _LEFT_OUT)


def main(wheel: str, folder: str) -> int:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if wanted(name)]
        for collection in COLLECTIONS:
            if not any(name.startswith(f"ansible_collections/{collection}/") for name in names):
                name = collection.replace("/", ".")
                print(f"error: {Path(wheel).name} has no collection {name}", file=sys.stderr)
                return 1
        archive.extractall(folder, names)
    print(f"{len(COLLECTIONS)} collections, {len(names)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
