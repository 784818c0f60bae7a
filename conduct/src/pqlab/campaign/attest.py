"""Collecting what both agents swear to while a run goes on: chains, signed heads, each in the other's chain.

After every attempt both ends are told the digest of all its files and the head of the other's chain, and
hand out what their own chains have gained. It is on the disk before the other end is told of it, so that a
head which one end names is never lost. An agent that was started again, or a run that goes on later, begins
another segment, which names the head of the one before. Format: docs/ATTESTATION.md.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path

from pqbase.documents import Json, texts_of, whole_of
from pqevidence.plan import plan_digest
from pqlab.campaign.agents import AgentFailure, Pair
from pqlab.campaign.store import ATTEMPT_PREFIX, Store, disk_errors, sync, write_json

#: folder under data/, and `attestation` of hello and plan
FOLDER = "attestation"
SCHEMA = "pqlab/attestation/v1"
_TIMEOUT_S = 30.0


def attests(hello: dict[str, Json]) -> bool:
    """Do both ends swear to what they hand out? One alone would have nobody to be linked with."""
    return all(facts.get(FOLDER) == SCHEMA for facts in hello.values())


def files_sha256(attempt: Path) -> str:
    """SHA-256 over `<sha256>  <path>` lines of the raw files of one attempt, sorted by path. Earlier attempts
    and record.json, which is made of the others, are left out."""
    files = [
        path
        for path in attempt.rglob("*")
        if path.is_file()
        and not path.relative_to(attempt).parts[0].startswith(ATTEMPT_PREFIX)
        and path != attempt / "record.json"
    ]
    from pqevidence.analysis.fingerprints import fingerprint  # not for `plan`, which imports this, too

    return str(fingerprint(attempt, files)["sha256"])


def documents_sha256(data: Path) -> str:
    """The same over what a run says of itself: run.json, plan, scenario, builds and hosts."""
    from pqevidence.analysis.fingerprints import DOCUMENTS, fingerprint

    files = [*(data / name for name in DOCUMENTS), *(data / "hosts").iterdir()]
    return str(fingerprint(data, files)["sha256"])


def attempts_of(home: Path) -> list[Path]:
    """Complete attempts in a cell's folder, the earliest first, its own last."""
    earlier = sorted(home.glob(f"{ATTEMPT_PREFIX}*"), key=lambda p: int(p.name.removeprefix(ATTEMPT_PREFIX)))
    return [*earlier, *([home] if (home / "record.json").is_file() else [])]


class _End:
    """One end's segments on the disk."""

    def __init__(self, role: str, folder: Path) -> None:
        self.role = role
        self._folder = folder
        self.segment = 0
        self.count = 0
        self.head: str | None = None
        self.told: set[tuple[str, str]] = set()
        while self._envelope(self.segment + 1).is_file():
            self.segment += 1
            self._take_up(self._chain(self.segment))
        # the first lines of a segment, written by a controller that died before their signature was
        self._chain(self.segment + 1).unlink(missing_ok=True)

    def _chain(self, segment: int) -> Path:
        return self._folder / f"{self.role}-{segment}.ndjson"

    def _envelope(self, segment: int) -> Path:
        return self._folder / f"{self.role}-{segment}.dsse.json"

    def _take_up(self, file: Path) -> None:
        """What a controller that died left: lines that no signature covers go; the agent has them yet, or
        nobody vouches for them."""
        envelope = json.loads(self._envelope(self.segment).read_bytes())
        predicate = json.loads(base64.b64decode(envelope["payload"]))["predicate"]
        self.count, self.head = int(predicate["entries"]), str(predicate["head"])
        lines = file.read_bytes().split(b"\n")[: self.count]
        file.write_bytes(b"".join(line + b"\n" for line in lines))
        self._note(line.decode() for line in lines)

    def _note(self, lines: Iterable[str]) -> None:
        rows = map(json.loads, lines)
        self.told |= {(row["cell_id"], row["files_sha256"]) for row in rows if row["entry"] == "attempt"}

    def keep(self, answer: Json) -> None:
        """What the agent answered, on the disk. Raises LabError when that is full."""
        if answer["segment"] != self.segment:
            self.segment, self.count = whole_of(answer, "segment"), 0
        file, lines = self._chain(self.segment), texts_of(answer, "lines")
        with disk_errors(file):
            file.parent.mkdir(exist_ok=True)
            with file.open("ab") as handle:
                handle.write("".join(f"{line}\n" for line in lines).encode())
            sync(file)
        write_json(self._envelope(self.segment), answer["envelope"], durable=True)
        self._note(lines)
        self.count += len(lines)
        self.head = str(answer["head"])


class Attester:
    """Both ends of one run. Where the agents do not attest, every method does nothing."""

    def __init__(self, pair: Pair, store: Store, *, active: bool) -> None:
        self._pair = pair
        self._store = store
        self.active = active
        self._ends: dict[str, _End] = {}
        #: first link of both chains
        self.plan_sha256 = ""
        #: role → public key of the segment under way
        self.keys: dict[str, str] = {}

    def begin(self, lost: Iterable[str] = ()) -> None:
        """Open a chain at both ends, or take it up. lost: cells of which attempts are gone from the disk.
        Raises AgentFailure."""
        if not self.active:
            return
        self.plan_sha256 = plan_digest(self._store.read("plan.json"))
        folder = self._store.data / FOLDER
        self._ends = {role: _End(role, folder) for role in self._pair.agents}
        for role in self._ends:
            self._join(role, list(lost))

    def _join(self, role: str, lost: list[str]) -> None:
        end = self._ends[role]
        asked = {
            "op": "begin",
            "run_id": self._store.run_id,
            "plan_sha256": self.plan_sha256,
            "segment": end.segment + 1,
            "since": end.count,
            "lost": lost,
            **({"earlier": end.head} if end.head else {}),
        }
        answer = self._pair.agents[role].call("attest", asked, timeout_s=_TIMEOUT_S)
        end.keep(answer)
        self.keys[role] = str(answer["public_key"])

    def tell(self, cell_id: str, home: Path) -> None:
        """Have both ends swear to the attempts in a cell's folder that their chains do not hold yet. Raises
        AgentFailure."""
        if not self.active:
            return
        for attempt in attempts_of(home):
            files = files_sha256(attempt)
            for role, end in self._ends.items():
                if (cell_id, files) not in end.told:
                    self._ask(role, {"op": "attempt", "cell_id": cell_id, "files_sha256": files})

    def end(self) -> None:
        """The run's documents as they are sealed, and the last heads, each in the other's chain; the agents
        drop their keys. Raises AgentFailure."""
        if self.active:
            told: Json = {"op": "end", "documents_sha256": documents_sha256(self._store.data)}
            for role in self._ends:
                self._ask(role, told)

    def _ask(self, role: str, asked: Json) -> None:
        """An agent that was started again since holds no chain: it begins another segment first."""
        end = self._ends[role]
        peer = next(other.head for name, other in self._ends.items() if name != role)
        for again in (True, False):
            given = {**asked, "run_id": self._store.run_id, "peer": peer, "since": end.count}
            try:
                end.keep(self._pair.agents[role].call("attest", given, timeout_s=_TIMEOUT_S))
            except AgentFailure as error:
                if error.code != "not_attesting" or not again:
                    raise
                self._join(role, [])
            else:
                return
