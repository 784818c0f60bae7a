"""The chains of an attested run as the checks read them (docs/ATTESTATION.md).

Written from the format, with nothing of the code that writes it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pqevidence.kernel.view import BundleView
from pqevidence.record.raw import Json, RawRun

FOLDER = "attestation"
ROLES = ("drone", "gcs")
#: cell ids of what is prepared and never recorded
_UNRECORDED = ("warm-up",)
_SEGMENT = re.compile(r"(drone|gcs)-([1-9][0-9]*)\.(ndjson|dsse\.json)")


@dataclass(frozen=True)
class Segment:
    """What one end swore to with one key: lines, their digests, the envelope over the last of them."""

    role: str
    number: int
    content: bytes
    envelope: Json

    @cached_property
    def lines(self) -> list[bytes]:
        return self.content.split(b"\n")[:-1]

    @cached_property
    def rows(self) -> list[Json]:
        return [json.loads(line) for line in self.lines]

    @cached_property
    def heads(self) -> list[str]:
        """The head after each line."""
        return [hashlib.sha256(line).hexdigest() for line in self.lines]

    @cached_property
    def payload(self) -> bytes:
        """The signed statement's bytes."""
        return base64.b64decode(str(self.envelope["payload"]), validate=True)

    @cached_property
    def statement(self) -> Json:
        loaded: Json = json.loads(self.payload)
        return loaded

    @property
    def label(self) -> str:
        return f"{FOLDER}/{self.role}-{self.number}.ndjson"

    @property
    def public_key(self) -> bytes:
        return bytes.fromhex(str(self.rows[0]["public_key"]))

    @property
    def key_id(self) -> str:
        return hashlib.sha256(self.public_key).hexdigest()[:16]


@dataclass
class Sworn:
    """One attempt as one end swore to it. measured: it was prepared there, and what was handed out of it is
    in `streams`, `counters_sha256`, `windows_sha256`. cut: a controller or the agent died over it. late: told
    to an agent that had just begun again."""

    cell_id: str
    files_sha256: str
    measured: bool
    cut: bool = False
    late: bool = False
    streams: dict[str, Json] = field(default_factory=dict)
    counters_sha256: str | None = None
    windows_sha256: Json = field(default_factory=dict)


@dataclass
class Account:
    """What the chain of one end says of a run. given_up: cells that were prepared when a controller died;
    open: cells that were prepared, and no attempt of which follows; lost: cells of which a controller found
    attempts damaged when it went on."""

    attempts: dict[str, list[Sworn]] = field(default_factory=dict)
    given_up: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)


class AttestedRun:
    """One run's chains: the bundle's own, or those of a run whose cells were taken over."""

    def __init__(self, run_id: str, raw: RawRun, folder: Path, cells: frozenset[str]) -> None:
        self.run_id, self.raw, self.folder, self.cells = run_id, raw, folder, cells

    @property
    def claimed(self) -> bool:
        """Does its plan say that it is attested, and did it measure anything?"""
        return bool(self.cells) and FOLDER in self.raw.plan

    @cached_property
    def there(self) -> bool:
        """Does the bundle hold anything of chains?"""
        return self.folder.is_dir() and any(self.folder.iterdir())

    @cached_property
    def segments(self) -> dict[str, list[Segment]]:
        """By role, in their order. Raises FileNotFoundError where half of one is missing."""
        found: dict[str, list[Segment]] = {role: [] for role in ROLES}
        numbers: dict[str, set[int]] = {role: set() for role in ROLES}
        for path in self.folder.iterdir():
            if match := _SEGMENT.fullmatch(path.name):
                numbers[match[1]].add(int(match[2]))
        for role, known in numbers.items():
            for number in sorted(known):
                chain = self.folder / f"{role}-{number}.ndjson"
                envelope = self.folder / f"{role}-{number}.dsse.json"
                segment = Segment(role, number, chain.read_bytes(), json.loads(envelope.read_bytes()))
                found[role].append(segment)
        return found

    @cached_property
    def accounts(self) -> dict[str, Account]:
        """What each end swore to, by cell."""
        return {role: _account(segments) for role, segments in self.segments.items()}


def _account(segments: list[Segment]) -> Account:
    account = Account()
    begun: Sworn | None = None
    for segment in segments:
        fresh = segment.number > 1
        for row in segment.rows:
            kind = row["entry"]
            if kind == "resumed":
                account.lost |= {str(cell_id) for cell_id in row["lost"]}
            if kind in ("begin", "resumed") and begun is not None:
                begun.cut = True  # a complete attempt is sworn to next, of any other nothing is left
            elif kind == "cell":
                _left(account, begun)
                begun, fresh = Sworn(str(row["cell_id"]), "", True), False
            elif kind == "attempt":
                begun = _attempt(account, begun, row, late=fresh)
            elif begun is not None and begun.cell_id == row.get("cell_id"):
                if kind == "stop":
                    begun.counters_sha256 = str(row["counters_sha256"])
                    begun.windows_sha256 = dict(row["windows_sha256"])
                elif kind == "stream":
                    begun.streams[str(row["stream"])] = row
    _left(account, begun)
    return account


def _left(account: Account, begun: Sworn | None) -> None:
    """A cell was prepared and something else follows: somebody died over it, or its attempt is hidden."""
    if begun is not None and begun.cell_id not in _UNRECORDED:
        (account.given_up if begun.cut else account.open).append(begun.cell_id)


def _attempt(account: Account, begun: Sworn | None, row: Json, *, late: bool) -> Sworn | None:
    cell_id, files_sha256 = str(row["cell_id"]), str(row["files_sha256"])
    known = account.attempts.setdefault(cell_id, [])
    if any(sworn.files_sha256 == files_sha256 for sworn in known):
        return begun  # said twice: the first answer was lost on the way
    if begun is None or begun.cell_id != cell_id:
        known.append(Sworn(cell_id, files_sha256, False, late=late))
        return begun
    begun.files_sha256 = files_sha256
    known.append(begun)
    return None


def attested_runs(bundle: BundleView) -> list[AttestedRun]:
    """Every run that has cells here, attested or not, oldest first. Read once a bundle."""
    kept = vars(bundle)
    if "attested_runs" not in kept:
        older = [
            AttestedRun(a.run_id, a.raw, a.folder / FOLDER, frozenset(a.cells)) for a in bundle.ancestors
        ]
        theirs = {cell_id for run in older for cell_id in run.cells}
        mine = frozenset(str(row["cell_id"]) for row in bundle.plan_cells) - theirs
        own = AttestedRun(str(bundle.raw.run.get("run_id")), bundle.raw, bundle.data / FOLDER, mine)
        kept["attested_runs"] = [*older, own]
    found: list[AttestedRun] = kept["attested_runs"]
    return found


def attempts_in(home: Path) -> list[Path]:
    """Folders of the attempts of a cell, the earliest first, its own last."""
    earlier = sorted(home.glob("attempt-*"), key=lambda path: int(path.name.removeprefix("attempt-")))
    return [*earlier, *([home] if (home / "record.json").is_file() else [])]


def files_digest(attempt: Path) -> str:
    """SHA-256 over `<sha256>  <path>` lines of an attempt's raw files, by path; record.json and earlier
    attempts left out."""
    return _digest_of(attempt, _raw_files(attempt))


def documents_digest(data: Path) -> str:
    """The same of what a run says of itself."""
    named = ("run.json", "plan.json", "scenario.effective.yml", "providers.json")
    return _digest_of(data, [*(data / name for name in named), *(data / "hosts").iterdir()])


def _digest_of(folder: Path, files: Iterable[Path]) -> str:
    named = {path.relative_to(folder).as_posix(): path for path in files}
    whole = hashlib.sha256()
    for name in sorted(named, key=str.encode):
        with named[name].open("rb") as handle:
            whole.update(f"{hashlib.file_digest(handle, 'sha256').hexdigest()}  {name}\n".encode())
    return whole.hexdigest()


def _raw_files(attempt: Path) -> Iterator[Path]:
    for path in attempt.rglob("*"):
        inside = path.relative_to(attempt)
        if path.is_file() and not inside.parts[0].startswith("attempt-") and inside.name != "record.json":
            yield path
