"""`pqlab tune` and `pqlab untune`: set what the requirements wish, remember what was there, give exactly that
back.

The memory is a file on /run, which the kernel forgets when it forgets the values. It is written before the
first value is, so a tune that dies halfway can be taken back as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from pqevidence.errors import LabError
from pqlab.doctor.model import Requirement
from pqlab.doctor.system import System

SCHEMA = "pqlab/tune/v1"
DEFAULT_STATE = Path("/run/pqlab/tune.json")


@dataclass(frozen=True)
class Change:
    """One file that was set: for which requirement, what it held before, what it holds since."""

    name: str
    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Outcome:
    """What became of one file. done: `set`, `kept` (held the value already), `restored`, `left` (somebody
    else has set it since) or `refused` (the kernel said no); `detail` says why where it is one of the last
    two."""

    name: str
    path: str
    done: str
    before: str
    now: str
    detail: str = ""

    def as_dict(self) -> dict[str, str]:
        """JSON-ready."""
        return asdict(self)


def value(system: System, path: str) -> str:
    """What a file holds. A file of choices shows the chosen one in brackets."""
    text = system.text(path).strip()
    if "[" in text and "]" in text:
        return text.partition("[")[2].partition("]")[0]
    return text


def read_state(state: Path) -> list[Change]:
    """What is tuned now, in the order it was set; nothing where there is no file. Raises LabError."""
    try:
        document = json.loads(state.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r}")
        return [Change(**row) for row in document["changes"]]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(
            "bad-tune-state",
            f"{state} cannot be read",
            str(error),
            "a reboot gives this machine its own values back; then remove the file",
        ) from error


def tune(requirements: Iterable[Requirement], system: System, state: Path) -> list[Outcome]:
    """Set what is wished and differs. A file that was tuned before keeps the value remembered first.

    Raises LabError (exit 4) where this user may not, before anything is changed.
    """
    known = {change.path: change for change in read_state(state)}
    outcomes: list[Outcome] = []
    planned: list[Change] = []
    for requirement in requirements:
        for wish in requirement.write(system) if requirement.write else []:
            before = value(system, wish.path)
            if before == wish.value:
                outcomes.append(Outcome(requirement.name, wish.path, "kept", before, before))
            else:
                first = known[wish.path].before if wish.path in known else before
                planned.append(Change(requirement.name, wish.path, first, wish.value))
    if not planned:
        return outcomes
    _store(state, [*(c for c in known.values() if c.path not in {p.path for p in planned}), *planned])
    refused: list[Change] = []
    for change in planned:
        detail = _set(system, change.path, change.after)
        if detail:
            refused.append(change)
        done = "refused" if detail else "set"
        outcomes.append(
            Outcome(change.name, change.path, done, change.before, value(system, change.path), detail)
        )
    if refused:
        gone = {change.path for change in refused if change.path not in known}
        _store(state, [change for change in read_state(state) if change.path not in gone])
    return outcomes


def untune(system: System, state: Path, *, force: bool = False) -> list[Outcome]:
    """Give back every value that tune remembered, last set first. What somebody else has set since stays,
    unless `force`; the file is removed once nothing of it is left to give back. Raises LabError (exit 4)."""
    changes = read_state(state)
    outcomes: list[Outcome] = []
    left: list[Change] = []
    for change in reversed(changes):
        now = value(system, change.path) if system.exists(change.path) else None
        if now is None:
            detail, done = "the file is gone, with the device behind it", "left"
        elif now == change.before:
            detail, done = "", "restored"
        elif now != change.after and not force:
            detail, done = f"somebody set it to {now} since; --force gives {change.before} back", "left"
        else:
            detail = _set(system, change.path, change.before)
            done = "refused" if detail else "restored"
            now = value(system, change.path)
        if done == "refused" or (done == "left" and now is not None):
            left.append(change)
        outcomes.append(Outcome(change.name, change.path, done, change.after, now or "", detail))
    if left:
        _store(state, list(reversed(left)))
    elif changes:
        state.unlink()
    return outcomes


def _set(system: System, path: str, text: str) -> str:
    """Write and read back; the reason when it did not take."""
    try:
        system.write(path, text)
    except OSError as error:
        return error.strerror or str(error)
    now = value(system, path)
    return "" if now == text else f"the kernel kept {now}"


def _store(state: Path, changes: list[Change]) -> None:
    document = {"schema": SCHEMA, "changes": [asdict(change) for change in changes]}
    part = state.with_name(state.name + ".part")
    try:
        state.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        part.replace(state)
    except OSError as error:
        raise LabError(
            "no-tune-state",
            f"{state} cannot be written",
            f"{error.strerror or error}; nothing is set that could not be given back",
            "sudo ./pqlab tune, or name another file: --state FILE",
        ) from error
