"""One hash over every raw file of a cell, logs included, and one over the run's own documents.

The tables are part of what the pages' own hash is of, so that a page that somebody printed or quoted pins
every raw file of its run, whoever writes the manifests again. With nothing but a shell, in a cell's folder:

    find . -type f -printf '%P\\n' | LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pqevidence.analysis.load import BundleData
from pqevidence.analysis.table import Row, Table
from pqevidence.bundle.digest import Hashed, hash_file

NAME = "fingerprints"
COLUMNS = ("part", "cell_id", "files_count", "size_bytes", "sha256")
#: what a run itself wrote beside its cells; tables, pages and crate are made from it
DOCUMENTS = ("scenario.effective.yml", "plan.json", "providers.json", "run.json")
FOLDERS = ("hosts", "lineage", "corrections")


def fingerprint_table(bundle: BundleData) -> Table:
    """A row a cell in suite order, and one for the run's documents."""
    table = Table(NAME, COLUMNS)
    for cell in bundle.cells:
        found = cell.known.fingerprint or fingerprint(cell.directory, _below(cell.directory))
        table.add(part="cell", cell_id=cell.cell_id, **found)
    table.add(part="run", **fingerprint(bundle.data, documents(bundle.data)))
    return table


def documents(data_dir: Path) -> Iterator[Path]:
    """Files of the run that are of no cell and were not made from others."""
    for name in DOCUMENTS:
        if (data_dir / name).is_file():
            yield data_dir / name
    for name in FOLDERS:
        yield from _below(data_dir / name)


def fingerprint(folder: Path, files: Iterable[Path], hashed: Mapping[str, Hashed] | None = None) -> Row:
    """Number of files, their bytes, and SHA-256 over `<sha256>  <path>` lines, sorted by path. hashed: by
    path below `folder`, what needs not be read again."""
    above = f"{folder.as_posix()}/"
    named = {path.as_posix().removeprefix(above): path for path in files}
    whole, size = hashlib.sha256(), 0
    for name in sorted(named, key=str.encode):
        found = (hashed or {}).get(name) or hash_file(named[name])
        size += found.size_bytes
        whole.update(f"{found.sha256.hex()}  {name}\n".encode())
    return {"files_count": len(named), "size_bytes": size, "sha256": whole.hexdigest()}


def _below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
