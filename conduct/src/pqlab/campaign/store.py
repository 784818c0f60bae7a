"""The work folder of a run, `results/.work/<run_id>`: whenever the controller dies, what is there is whole.

Files appear by rename. A cell is built in `partial/<cell_id>` and becomes `data/cells/<cell_id>` in one
rename once its record is written and all of it is on the disk, so a folder under data/cells is always a
finished cell; a power cut loses the cell in progress. What is damaged nevertheless is kept aside, never
deleted.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from pqbase.documents import Json, number_of, rows_of
from pqevidence.errors import LabError
from pqevidence.paths import shown
from pqlab.campaign.lock import Lock

WORK_FOLDER = ".work"
#: what cannot be read any more, by run and cell; beside the runs, because a sealed run leaves no work behind
DAMAGED_FOLDER = ".damaged"
#: files a finished attempt leaves in the cell's folder besides its earlier attempts
ATTEMPT_PREFIX = "attempt-"
#: state of a run whose folder holds nothing but the bundle to be: it is being sealed, or was killed then
WHOLE = "measured, not sealed yet"
#: beside data/, so that it never enters a bundle: the controller's events of the cell in progress
CELL_EVENTS = "cell-events.ndjson"
#: one of them may be empty where the other end's is not
_MAY_BE_EMPTY = ("telemetry",)


def write_atomic(path: Path, content: str | bytes, *, durable: bool = False) -> None:
    """Write `path` so that a reader sees the old content or the new, never a part; `durable`: after a power
    cut, too. Raises LabError."""
    temporary = path.with_name(f".{path.name}.tmp")
    data = content.encode() if isinstance(content, str) else content
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        if durable:
            sync(temporary)
        temporary.replace(path)
        if durable:
            sync(path.parent)


def write_json(path: Path, document: object, *, durable: bool = False) -> None:
    """A JSON document, indented for people and diffs."""
    write_atomic(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n", durable=durable)


def sync(*paths: Path) -> None:
    """Content of files, names in folders: on the disk when this returns."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """A folder and everything in it."""
    sync(*folder.rglob("*"), folder)


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


def data_of(attempt: Path) -> Path:
    """data/ of the run whose attempt is built in this folder (`partial/<cell_id>`)."""
    return attempt.parents[1] / "data"


class Store:
    """One run's work folder."""

    def __init__(self, results: Path, run_id: str) -> None:
        self.results = results
        self.run_id = run_id
        self.root = results / WORK_FOLDER / run_id
        self.data = self.root / "data"
        self._lock = Lock(self.root)

    # ------------------------------------------------------------------ one controller a run

    def lock(self) -> None:
        """Hold the run for this process; the kernel lets go when the process dies, however it dies."""
        with disk_errors(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            taken = self._lock.take()
        if not taken:
            raise LabError(
                "run-busy",
                f"run {self.run_id} is being carried out by another pqlab",
                "two controllers would mix their cells",
                "./pqlab status shows how far it is",
            )

    def unlock(self) -> None:
        self._lock.release()

    def is_locked(self) -> bool:
        """Is a process carrying this run out?"""
        return self._lock.is_held()

    # ------------------------------------------------------------------ documents

    def write(self, name: str, document: object) -> None:
        """One JSON document under data/; there after a power cut."""
        write_json(self.data / name, document, durable=True)

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
            age_s = now_ns / 1e9 - datetime.fromisoformat(str(status["updated_utc"])).timestamp()
            status["eta_s"] = round(max(0.0, number_of(status, "eta_s") - max(0.0, age_s)), 1)
        return status

    def status_or_begun(self, now_ns: int) -> Json:
        """`status_at`; of a run without a status its cells tell: between its plan and its first cell it is
        `starting`, or `begun` where nobody holds it any more; with nothing but the bundle left in its folder
        it is `WHOLE`. Raises LabError without a plan."""
        try:
            return self.status_at(now_ns)
        except LabError:
            plan = self.read("plan.json")
        records = [self.record_of(str(cell["cell_id"])) for cell in rows_of(plan, "cells")]
        verdicts = Counter(str(record["verdict"]) for record in records if record is not None)
        done, total = verdicts.total(), len(records)
        begun = "starting" if self.is_locked() else "begun"
        return {
            "run_id": self.run_id,
            "scenario": plan["scenario"],
            "done": done,
            "total": total,
            "state": WHOLE if done and done == total else begun,
            "verdict_counts": dict(sorted(verdicts.items())),
            "current": None,
            "eta_s": None,
            "error": None,
        }

    def begin_events(self) -> None:
        """A cell begins: what was told of the one before it is over."""
        with disk_errors(self.root / CELL_EVENTS):
            (self.root / CELL_EVENTS).write_bytes(b"")

    def tell_event(self, event: Json) -> None:
        """One event of the cell in progress, for whoever watches. Never raises for a disk that has no room:
        a condition fills it on purpose, and the cell keeps its events anyway."""
        line = json.dumps(event, separators=(",", ":")) + "\n"
        path = self.root / CELL_EVENTS
        with contextlib.suppress(LabError), disk_errors(path), path.open("a", encoding="utf-8") as file:
            file.write(line)

    def told_events(self) -> list[Json]:
        """What was told of the cell in progress so far; a line that is being written is left out."""
        try:
            lines = (self.root / CELL_EVENTS).read_text(encoding="utf-8").splitlines(keepends=True)
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def clear_scaffolding(self) -> None:
        """Leave only what belongs in a bundle; the lock stays held through its open file."""
        shutil.rmtree(self.root / "partial", ignore_errors=True)
        for name in ("status.json", CELL_EVENTS, "lock"):
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
        path = self._partial(cell_id) / "record.json"
        return read_json(path) if path.is_file() else None

    def attempts_made(self, cell_id: str) -> int:
        """Complete attempts so far, the ones inside a finished cell included."""
        return len(self._kept_attempts(cell_id))

    def attempts_finished(self, cell_id: str) -> int:
        """Complete attempts of the finished cell; 0 without one."""
        return len(_complete(self.cell_dir(cell_id)))

    def recover(self, cell_id: str) -> list[str]:
        """Put right what a dead controller or a power cut left of a cell; returns what to tell about it.

        A swap of `partial` is undone, and what is damaged goes aside with all its files: the cell is missing
        then, with the whole ones among its earlier attempts.
        """
        partial = self._partial(cell_id)
        fresh, old = _beside(partial, "new"), _beside(partial, "old")
        told = []
        with disk_errors(partial):
            if old.is_dir() and not partial.is_dir():
                old.rename(partial)
            for copies in filter(Path.is_dir, (fresh, old)):
                shutil.rmtree(copies, ignore_errors=True)
            for home in (self.cell_dir(cell_id), partial):
                why = damage(home, unfinished=home == partial) if home.is_dir() else None
                if why is not None:
                    aside = self._put_aside(home, cell_id)
                    told.append(
                        f"cell {cell_id} is damaged and will be measured again: {why}; "
                        f"what is left of it lies in {shown(aside)}"
                    )
                    kept = [folder for folder in _attempts_in(aside) if damage(folder) is None]
                    if len(kept) > self.attempts_made(cell_id):
                        self._renew(partial, kept)
        return told

    def new_attempt(self, cell_id: str) -> Path:
        """An empty folder for the next attempt, with earlier attempts (kept) inside it.

        Earlier attempts are those of this process, those a killed controller left complete, and a finished
        cell that is run again because it failed.
        """
        partial = self._partial(cell_id)
        with disk_errors(partial):
            self._renew(partial, self._kept_attempts(cell_id))
        return partial

    def finish_cell(self, cell_id: str) -> Path:
        """The attempt in `partial` becomes the cell, in one rename, once all of it is on the disk."""
        partial, final = self._partial(cell_id), self.cell_dir(cell_id)
        with disk_errors(final):
            final.parent.mkdir(parents=True, exist_ok=True)
            sync_tree(partial)
            if final.is_dir():
                # its content is already inside the new one as an earlier attempt
                retired = _beside(partial, "retired")
                shutil.rmtree(retired, ignore_errors=True)
                final.rename(retired)
                partial.rename(final)
                shutil.rmtree(retired, ignore_errors=True)
            else:
                partial.rename(final)
            sync(final.parent, self.data, partial.parent)
        return final

    def homes(self, cell_id: str) -> list[Path]:
        """Folders that may hold attempts of a cell: the finished one, then the one in work."""
        return [self.cell_dir(cell_id), self._partial(cell_id)]

    def _partial(self, cell_id: str) -> Path:
        return self.root / "partial" / cell_id

    def _kept_attempts(self, cell_id: str) -> list[Path]:
        # an attempt begun after a finished cell holds that cell, too, unless what it held was damaged
        homes = (self._partial(cell_id), self.cell_dir(cell_id))
        return max((_complete(home) for home in homes), key=len)

    def _renew(self, partial: Path, kept: list[Path]) -> None:
        """`partial` anew, with copies of `kept` inside; at every moment one of two folders holds them all."""
        fresh, old = _beside(partial, "new"), _beside(partial, "old")
        for left in filter(Path.is_dir, (fresh, old)):
            shutil.rmtree(left)
        fresh.mkdir(parents=True)
        for number, folder in enumerate(kept, start=1):
            shutil.copytree(folder, fresh / f"{ATTEMPT_PREFIX}{number}", ignore=_no_attempts)
        if kept:
            sync_tree(fresh)
        if partial.is_dir():
            partial.rename(old)
        fresh.rename(partial)
        shutil.rmtree(old, ignore_errors=True)

    def _put_aside(self, home: Path, cell_id: str) -> Path:
        folder = self.results / WORK_FOLDER / DAMAGED_FOLDER / self.run_id
        folder.mkdir(parents=True, exist_ok=True)
        number = 1 + sum(1 for path in folder.glob(f"{cell_id}-*") if path.is_dir())
        return home.rename(folder / f"{cell_id}-{number}")


def damage(folder: Path, *, unfinished: bool = False) -> str | None:
    """What is wrong with a cell's folder, its earlier attempts included, as a power cut leaves it: a record
    that is none, files without their content. None when it is whole; `unfinished` ones need no record."""
    for earlier in _attempts_in(folder):
        if (why := damage(earlier)) is not None:
            return f"{earlier.name}: {why}"
    record = folder / "record.json"
    if unfinished and not record.is_file():
        return None
    try:
        document = json.loads(record.read_bytes())
        str(document["verdict"])
        rests_on = {
            str(field["source"]).split(".")[0]
            for category in (document.get("categories") or {}).values()
            for field in category.values()
            if field["value"]
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "its record cannot be read"
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if inside.parts[0].startswith(ATTEMPT_PREFIX) or not path.is_file():
            continue
        with path.open("rb") as file:
            first = file.read(1)
        stem = path.name.split(".")[0]
        never_empty = path.suffix == ".json" or stem == "events"
        if first == b"\0" or (not first and (never_empty or (stem in rests_on - {*_MAY_BE_EMPTY}))):
            return f"{inside} lost its content"
    for stem in sorted(rests_on & {*_MAY_BE_EMPTY}):
        files = list(folder.glob(f"{stem}.*"))
        if files and not any(path.stat().st_size for path in files):
            return f"{stem} lost its content"
    return None


def _beside(partial: Path, name: str) -> Path:
    return partial.with_name(f"{partial.name}.{name}")


def _attempts_in(home: Path) -> list[Path]:
    return sorted(home.glob(f"{ATTEMPT_PREFIX}*"), key=_attempt_number)


def _complete(home: Path) -> list[Path]:
    """Complete attempts in a cell's folder: the earlier ones, then its own."""
    return [*_attempts_in(home), *([home] if (home / "record.json").is_file() else [])]


def _attempt_number(folder: Path) -> int:
    return int(folder.name.removeprefix(ATTEMPT_PREFIX))


def _no_attempts(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(ATTEMPT_PREFIX)]


def work_runs(results: Path) -> list[str]:
    """Run ids in work, newest last."""
    folder = results / WORK_FOLDER
    return sorted(p.name for p in folder.glob("*") if (p / "data" / "plan.json").is_file())
