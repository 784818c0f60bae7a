"""What lies in a folder of bundles: one entry a submission, in the index with its numbers, or refused by a
named check.

Nothing is skipped without a word: a link and what claims to be no bundle are named as such. One hostile
submission spoils no other.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import multiprocessing
import os
import re
import stat
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Final

from pqbase.documents import (
    Json,
    exact_of,
    exact_or_none,
    number_of,
    number_or_none,
    part_of,
    rows_of,
    text_of,
    text_or_none,
    texts_of,
    whole_of,
)
from pqevidence.index.cache import Looks
from pqevidence.index.look import ARCHIVE, DAMAGE, Look, look
from pqevidence.index.machines import Machine, machine_of
from pqevidence.index.rules import BY_NAME, Refused, Said, plain
from pqevidence.record.rings import RINGS
from pqevidence.verify.run import COLLECT_AFTER

VERDICTS: Final = ("pass", "fail", "unsupported", "invalid", "not-run")
#: a signature of `archive --sign`, which lies beside its archive
SIGNATURE: Final = f"{ARCHIVE}.sig"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", re.ASCII)
#: what one look may take of the memory; verify needs some 60 MB, and refuses beyond 1 GiB
_LOOK_BYTES = 4 << 30
#: suite and condition
Place = tuple[str, str]


@dataclass(frozen=True)
class Answer:
    """Cold handshake at the drone of one suite and condition, over the cells of one run that passed, as the
    report has it. unit: what the interval speaks of (`report.inference.UNITS`); units_count: how many."""

    suite_id: str
    condition: str
    ring: str
    cells_count: int
    median_ms: float
    low_ms: float | None = None
    high_ms: float | None = None
    method: str | None = None
    unit: str | None = None
    units_count: int | None = None

    @classmethod
    def remembered(cls, row: Json) -> Answer:
        """As `look` wrote it down."""
        return cls(
            suite_id=text_of(row, "suite_id"),
            condition=text_of(row, "condition"),
            ring=text_of(row, "ring"),
            cells_count=exact_of(row, "cells_count"),
            median_ms=number_of(row, "median_ms"),
            low_ms=number_or_none(row, "low_ms"),
            high_ms=number_or_none(row, "high_ms"),
            method=text_or_none(row, "method"),
            unit=text_or_none(row, "unit"),
            units_count=exact_or_none(row, "units_count"),
        )

    @property
    def place(self) -> Place:
        return self.suite_id, self.condition


@dataclass(frozen=True)
class Entry:
    """One submission. `refused`: the check that keeps it out, all that follows is then missing.

    marks: what must be known of it; answers: none where its times are no claim; facts: what `compare` asks
    of two bundles; apart: why it stands in no line of runs; page: does its report follow from its files;
    corrected: the runs that it corrects.
    """

    name: str
    checked: str = "not looked at"
    refused: Said | None = None
    marks: tuple[Said, ...] = ()
    kept: bool = False
    digest: str | None = None
    run_id: str | None = None
    scenario: str | None = None
    ring: str | None = None
    begun_utc: str | None = None
    release: str | None = None
    licence: str | None = None
    verdicts: Mapping[str, int] = field(default_factory=dict)
    machine: Machine | None = None
    answers: tuple[Answer, ...] = ()
    facts: Json = field(default_factory=dict)
    apart: str | None = None
    page: bool = False
    corrected: tuple[str, ...] = ()

    @property
    def medians_ms(self) -> dict[Place, float]:
        return {answer.place: answer.median_ms for answer in self.answers}


@dataclass(frozen=True)
class Folder:
    """Accepted entries in order of time, refused ones by name, and what claims to be no bundle: name, why."""

    entries: list[Entry]
    refused: list[Entry]
    others: list[tuple[str, str]]


def look_through(
    folder: Path,
    *,
    verify: bool,
    looks: Looks | None = None,
    skip: frozenset[str] = frozenset(),
    day: date | None = None,
    require: frozenset[str] = frozenset(),
    jobs: int = 1,
) -> Folder:
    """Every submission directly in `folder`.

    skip: names of the index's own; day: the last on which a run may have ended, UTC (default: today);
    require: marks that refuse; jobs: processes that look at once.
    """
    found: dict[str, Entry] = {}
    others: list[tuple[str, str]] = []
    sent: list[Path] = []
    folded: dict[str, str] = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.startswith(".") or path.name in skip:
            continue  # work in progress, half-written files, the index itself
        try:
            other = _entrance(path, folder, folded)
        except Refused as refused:
            found[path.name] = Entry(plain(path.name, 90), refused=refused.said)
            continue
        except OSError as error:
            why = f"it cannot be read: {error.strerror or error}"
            found[path.name] = Entry(plain(path.name, 90), refused=Said("looked_through", why))
            continue
        if other is not None:
            others.append((plain(path.name, 90), other))
        else:
            sent.append(path)
    latest = day if day is not None else datetime.now(UTC).date()
    seen = _all_looks(sent, looks or Looks(None), verify, jobs)
    for path, one in zip(sent, seen, strict=True):
        found[path.name] = _entry(path.name, one, latest, require)
    entries = _current(_once(list(found.values())), require)
    good = [entry for entry in entries if entry.refused is None]
    good.sort(key=lambda entry: (entry.begun_utc or "", entry.name))
    return Folder(good, [entry for entry in entries if entry.refused is not None], others)


# ------------------------------------------------------------------ the entry as it lies there


def _entrance(path: Path, folder: Path, folded: dict[str, str]) -> str | None:
    """None for a submission to look at, why it is none for what claims nothing. Raises Refused."""
    name = path.name
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        target = str(path.readlink())
        if _NAME.fullmatch(name) and _NAME.fullmatch(target) and (folder / target).exists():
            return f"a link to {target}, not followed"
        raise Refused("entry_link", f"a link to {target}")
    if not (stat.S_ISDIR(about.st_mode) or stat.S_ISREG(about.st_mode)):
        raise Refused("entry_kind", "neither file nor folder")
    if not _NAME.fullmatch(name):
        raise Refused("entry_name", f"its name reads {name}")
    if (other := folded.setdefault(name.lower(), name)) != name:
        raise Refused("entry_apart", f"{other} is called so already")
    if stat.S_ISREG(about.st_mode):
        if name.endswith(ARCHIVE):
            return None
        return "a signature, which the index does not ask" if name.endswith(SIGNATURE) else "no bundle"
    claims = ("data", "bagit.txt", "flown.json", "tagmanifest-sha512.txt")
    return None if any(os.path.lexists(path / claim) for claim in claims) else "no bundle"


# ------------------------------------------------------------------ looks, several at once


def _all_looks(paths: Sequence[Path], looks: Looks, verify: bool, jobs: int) -> list[Look]:
    """A look at each, in their order, in processes whose memory is bounded, which that of the index is not. A
    look that takes its process down refuses that submission alone."""
    found = _in_processes(paths, looks, verify, jobs) if paths else []
    for place, one in enumerate(found):
        if one is None:  # its process or one beside it died: once more, by itself
            (alone,) = _in_processes([paths[place]], looks, verify, 1)
            found[place] = alone or Look(None, Said("looked_through", "the process that looked at it died"))
    return [one for one in found if one is not None]


def _in_processes(paths: Sequence[Path], looks: Looks, verify: bool, jobs: int) -> list[Look | None]:
    # once, and not in every process: what verify imports where it makes tables and pages again
    importlib.import_module("pqevidence.derived")
    importlib.import_module("pqevidence.pages")
    how = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(how)
    found: list[Look | None] = []
    with ProcessPoolExecutor(max(1, min(jobs, len(paths))), mp_context=context, initializer=_begin) as pool:
        waiting = [pool.submit(_one_look, path, looks, verify=verify) for path in paths]
        for future in waiting:
            try:
                found.append(future.result())
            except BrokenProcessPool:
                found.append(None)
            except DAMAGE as error:  # what was found cannot be handed over
                why = plain(f"{type(error).__name__}: {error}")
                found.append(Look(None, Said("looked_through", why)))
    return found


def _one_look(path: Path, looks: Looks, *, verify: bool) -> Look:
    return look(path, looks, verify=verify)


def _begin() -> None:
    """Of each process, once. What is imported is nobody's rubbish, and what a look leaves is mostly rows."""
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    _bound_memory()


def _bound_memory() -> None:
    if sys.platform == "win32":
        return
    import resource

    with contextlib.suppress(ValueError, OSError):  # a lower limit holds already
        resource.setrlimit(resource.RLIMIT_AS, (_LOOK_BYTES, resource.RLIM_INFINITY))


# ------------------------------------------------------------------ one entry, then each beside the others


def _entry(name: str, one: Look, latest: date, require: frozenset[str]) -> Entry:
    if one.found is None:
        assert one.refused is not None
        return Entry(name, "refused", refused=one.refused)
    told = one.found
    marks = tuple(_marks(told))
    refused = next((mark for mark in marks if mark.check in require), None)
    after = datetime.combine(latest + timedelta(days=1), time(), UTC)
    end_ns = exact_of(told, "end_ns")
    if end_ns >= int(after.timestamp()) * 10**9:
        ended = datetime.fromtimestamp(end_ns // 10**9, UTC)
        refused = Said("not_later", f"it ended on {ended:%Y-%m-%d}")
    counts, facts = part_of(told, "verdicts"), part_of(told, "facts")
    against = [mark.check for mark in marks if mark.check in ("own_cells", "quiet", "timed")]
    return Entry(
        name=name,
        checked=str(told["checked"]),
        refused=refused,
        marks=marks,
        kept=one.kept,
        digest=str(told["digest"]),
        run_id=str(told["run_id"]),
        scenario=str(told["scenario"]),
        ring=str(told["ring"]),
        begun_utc=str(told["begun_utc"]),
        release=str(told["release"]),
        licence=text_or_none(told, "licence"),
        verdicts={verdict: whole_of(counts, verdict, 0) for verdict in VERDICTS},
        machine=machine_of(part_of(facts, "hosts")),
        answers=tuple(Answer.remembered(row) for row in rows_of(told, "answers")),
        facts=facts,
        apart=f"marked {', '.join(against)}" if against else None,
        page=bool(told["page"]),
        corrected=tuple(texts_of(told, "corrected")),
    )


def _marks(told: Json) -> list[Said]:
    found = []
    if told["licence"] is None:
        found.append(Said("licensed", "it names no licence"))
    if not told["attested"]:
        found.append(Said("attested", "unsigned"))
    if told["earlier"] or told["corrected"]:
        runs = ", ".join(texts_of(told, "earlier")) or "no other run"
        count = len(texts_of(told, "corrected"))
        corrected = f", with {count} corrections" if count else ""
        found.append(Said("own_cells", plain(f"holds cells of {runs}{corrected}")))
    for rule, key in (("quiet", "busy"), ("timed", "untimed"), ("no_warning", "warned")):
        if told[key]:
            found.append(Said(rule, str(told[key])))
    return found


def _once(entries: list[Entry]) -> list[Entry]:
    """The same bytes count once, the first by name, and a run id stands for one content: the entry that is
    named as the run stays, where it is the only one of that name."""
    first: dict[str, str] = {}
    kept: list[Entry] = []
    for entry in entries:
        other = entry.name
        if entry.refused is None and entry.digest is not None:
            other = first.setdefault(entry.digest, entry.name)
        again = Said("bundle_once", f"{other} holds the same bytes") if other != entry.name else entry.refused
        kept.append(replace(entry, refused=again))
    by_run: dict[str, list[Entry]] = defaultdict(list)
    for entry in kept:
        if entry.refused is None and entry.run_id is not None:
            by_run[entry.run_id].append(entry)
    refused: dict[str, Said] = {}
    for run_id, several in by_run.items():
        named = [entry for entry in several if entry.name.removesuffix(ARCHIVE) == run_id]
        stays = named[0].name if len(named) == 1 else None
        for entry in several if len(several) > 1 else ():
            if entry.name != stays:
                rest = ", ".join(other.name for other in several if other is not entry)
                refused[entry.name] = Said("run_once", plain(f"{rest} is run {run_id} with other content"))
    return [replace(e, refused=refused[e.name]) if e.name in refused else e for e in kept]


def _current(entries: list[Entry], require: frozenset[str]) -> list[Entry]:
    """A run that another entry corrects says so. It stays, because anybody can send a correction of anybody's
    run: who keeps the folder decides."""
    rule, found = "current", []
    for entry in entries:
        by = [e.name for e in entries if e.refused is None and entry.run_id in e.corrected]
        if entry.refused is None and by:
            said = Said(rule, plain(f"corrected by {', '.join(by)}"))
            entry = replace(entry, marks=(*entry.marks, said), refused=said if rule in require else None)
        found.append(entry)
    return found


def warned(entries: Sequence[Entry]) -> bool:
    """Is one of them marked by a rule after which the command ends with 3?"""
    return any(BY_NAME[mark.check].warns for entry in entries for mark in entry.marks)


def rings_of(entries: Sequence[Entry]) -> list[str]:
    """Rings that there are, the weakest first."""
    there = Counter(entry.ring for entry in entries)
    return [ring for ring in RINGS if ring in there]
