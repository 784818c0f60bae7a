"""The work folder of a run, `results/.work/<run_id>`: whenever the controller dies, what is there is whole.

Files appear by rename (a killed process loses nothing so; a power cut may lose the last cell). A cell is
built in `partial/<cell_id>` and becomes `data/cells/<cell_id>` in one rename once its record is written, so
a folder under data/cells is always a finished cell.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from pqlab.errors import LabError
from pqlab.paths import shown

Json = dict[str, Any]
WORK_FOLDER = ".work"
#: files a finished attempt leaves in the cell's folder besides its earlier attempts
ATTEMPT_PREFIX = "attempt-"


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write `path` so that a reader sees the old content or the new, never a part. Raises LabError."""
    temporary = path.with_name(f".{path.name}.tmp")
    data = content.encode() if isinstance(content, str) else content
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)


def write_json(path: Path, document: Any) -> None:
    """A JSON document, indented for people and diffs."""
    write_atomic(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Json:
    """Raises LabError when the file is unreadable."""
    try:
        loaded: Json = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LabError(
            "unreadable", f"cannot read {shown(path)}", str(error), "./pqlab status shows what is whole"
        ) from error
    return loaded


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns a full or read-only disk into an error that says so."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LabError(
                "disk-full",
                f"no space left on the disk of {shown(path.parent)}",
                "what was being written is not there; every finished cell is kept",
                "free some space",
            ) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise LabError(
                "not-writable",
                f"cannot write {shown(path)}",
                str(error.strerror),
                "give --out a folder you may write, or correct its owner",
            ) from error
        raise


class Store:
    """One run's work folder."""

    def __init__(self, results: Path, run_id: str) -> None:
        self.results = results
        self.run_id = run_id
        self.root = results / WORK_FOLDER / run_id
        self.data = self.root / "data"
        self._lock: TextIO | None = None

    # ------------------------------------------------------------------ one controller a run

    def lock(self) -> None:
        """Hold the run for this process; the kernel lets go when the process dies, however it dies."""
        with disk_errors(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            file = (self.root / "lock").open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise LabError(
                "run-busy",
                f"run {self.run_id} is being carried out by another pqlab",
                "two controllers would mix their cells",
                "./pqlab status shows how far it is",
            ) from error
        self._lock = file

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def is_locked(self) -> bool:
        """Is another process carrying this run out? Makes no file: the folder may be becoming a bundle."""
        try:
            file = (self.root / "lock").open("r+")
        except OSError:
            return False
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    # ------------------------------------------------------------------ documents

    def write(self, name: str, document: Any) -> None:
        """One JSON document under data/."""
        write_json(self.data / name, document)

    def read(self, name: str) -> Json:
        return read_json(self.data / name)

    def write_status(self, status: Json) -> None:
        """status.json lies beside data/, so that it never enters a bundle."""
        write_json(self.root / "status.json", status)

    def read_status(self) -> Json:
        return read_json(self.root / "status.json")

    def status_at(self, now_ns: int) -> Json:
        """The status as others see it at `now_ns` (Unix time): a run that nobody holds was killed, and
        `eta_s`, written with `updated_utc`, has run down since. Raises LabError without a status."""
        status = self.read_status()
        if status["state"] in ("running", "finishing") and not self.is_locked():
            status["state"] = "killed"
        if status["state"] != "running":
            status["eta_s"] = None
        elif status["eta_s"] is not None:
            age_s = now_ns / 1e9 - datetime.fromisoformat(status["updated_utc"]).timestamp()
            status["eta_s"] = round(max(0.0, status["eta_s"] - max(0.0, age_s)), 1)
        return status

    def clear_scaffolding(self) -> None:
        """Leave only what belongs in a bundle; the lock stays held through its open file."""
        shutil.rmtree(self.root / "partial", ignore_errors=True)
        for name in ("status.json", "lock"):
            (self.root / name).unlink(missing_ok=True)

    # ------------------------------------------------------------------ cells

    def cell_dir(self, cell_id: str) -> Path:
        return self.data / "cells" / cell_id

    def record_of(self, cell_id: str) -> Json | None:
        """The record of a finished cell, or None."""
        path = self.cell_dir(cell_id) / "record.json"
        return read_json(path) if path.is_file() else None

    def left_complete(self, cell_id: str) -> Json | None:
        """The record of an attempt that was complete when its controller died, before it became the cell."""
        path = self.root / "partial" / cell_id / "record.json"
        return read_json(path) if path.is_file() else None

    def attempts_made(self, cell_id: str) -> int:
        """Complete attempts so far, the ones inside a finished cell included."""
        return len(self._kept_attempts(cell_id, self.root / "partial" / cell_id))

    def new_attempt(self, cell_id: str) -> Path:
        """An empty folder for the next attempt, with earlier attempts (kept) inside it.

        Earlier attempts are those of this process, those a killed controller left complete, and a finished
        cell that is run again because it failed.
        """
        partial = self.root / "partial" / cell_id
        kept = self._kept_attempts(cell_id, partial)
        fresh = partial.with_name(f"{cell_id}.new")
        with disk_errors(fresh):
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            for number, folder in enumerate(kept, start=1):
                shutil.copytree(folder, fresh / f"{ATTEMPT_PREFIX}{number}", ignore=_no_attempts)
            shutil.rmtree(partial, ignore_errors=True)
            fresh.rename(partial)
        return partial

    def _kept_attempts(self, cell_id: str, partial: Path) -> list[Path]:
        # an attempt begun after a finished cell holds that cell already, so `partial` goes first
        for home in (partial, self.cell_dir(cell_id)):
            kept = sorted(home.glob(f"{ATTEMPT_PREFIX}*"), key=_attempt_number)
            if (home / "record.json").is_file():
                kept.append(home)
            if kept:
                return kept
        return []

    def finish_cell(self, cell_id: str) -> Path:
        """The attempt in `partial` becomes the cell, in one rename."""
        partial, final = self.root / "partial" / cell_id, self.cell_dir(cell_id)
        with disk_errors(final):
            final.parent.mkdir(parents=True, exist_ok=True)
            if final.is_dir():
                # its content is already inside the new one as an earlier attempt
                retired = self.root / "partial" / f"{cell_id}.old"
                shutil.rmtree(retired, ignore_errors=True)
                final.rename(retired)
                partial.rename(final)
                shutil.rmtree(retired, ignore_errors=True)
            else:
                partial.rename(final)
        return final


def _attempt_number(folder: Path) -> int:
    return int(folder.name.removeprefix(ATTEMPT_PREFIX))


def _no_attempts(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(ATTEMPT_PREFIX)]


def work_runs(results: Path) -> list[str]:
    """Run ids in work, newest last."""
    folder = results / WORK_FOLDER
    return sorted(p.name for p in folder.glob("*") if (p / "data" / "plan.json").is_file())
