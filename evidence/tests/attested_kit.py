"""Test kit: has two agents' chains swear to the raw files of a bundle, as if they had handed them out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pqtunnel.agent.attest import SCHEMA, Attestation

Json = dict[str, Any]
ROLES = ("drone", "gcs")
#: what an end hands out of a stream: (role, stream, lines) → lines
Handed = Callable[[str, str, list[str]], list[str]]
_PROMISED = ("schema_version", "scenario", "scenario_sha256", "seed", "order", "conditions", "cells")
_STREAMS = {"ledger": "ledger.{}.csv", "telemetry": "telemetry.{}.lp", "log": "logs/{}.log"}


def claim(root: Path) -> None:
    """The plan says that the run is attested; tables and pages above it are to be made again."""
    path = root / "data" / "plan.json"
    plan = json.loads(path.read_text(encoding="utf-8"))
    plan["attestation"] = SCHEMA
    path.write_text(json.dumps(plan, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def swear(
    root: Path, *, plan_sha256: str | None = None, handed: Handed | None = None, hidden: str | None = None
) -> dict[str, str]:
    """Chains of both ends over the files as they lie there; returns the public keys. The bag is to be made
    again after it.

    plan_sha256: of another plan than that of the bundle. handed: changes what the agents hand out. hidden:
    a cell that was measured twice; the first attempt is not in the bundle.
    """
    data = root / "data"
    plan = json.loads((data / "plan.json").read_text(encoding="utf-8"))
    promised = {name: plan[name] for name in _PROMISED if name in plan}
    begun = {"run_id": plan["run_id"], "plan_sha256": plan_sha256 or _sha256(promised), "segment": 1}
    ends = {role: _End(role, data / "attestation", str(plan["run_id"])) for role in ROLES}
    for end in ends.values():
        end.ask({"op": "begin", "since": 0, **begun})
    for row in sorted(plan["cells"], key=lambda row: int(row["position"])):
        home = data / "cells" / row["cell_id"]
        earlier = sorted(home.glob("attempt-*"), key=lambda path: int(path.name[8:]))
        for attempt in [*([home] if row["cell_id"] == hidden else []), *earlier, home]:
            if not (attempt / "record.json").is_file():
                continue
            for role, end in ends.items():
                _measure(attempt, role, end.agent, row, handed or _as_they_are)
            files = _files(attempt)
            if row["cell_id"] == hidden:
                hidden, files = None, _sha256("the files of another attempt")
            for role, end in ends.items():
                told = {"op": "attempt", "cell_id": row["cell_id"], "files_sha256": files}
                end.swear(told, _other(ends, role))
    documents = [data / n for n in ("run.json", "plan.json", "scenario.effective.yml", "providers.json")]
    documents += list((data / "hosts").iterdir())
    for role, end in ends.items():
        end.swear({"op": "end", "documents_sha256": _listed(data, documents)}, _other(ends, role))
    return {role: end.public_key for role, end in ends.items()}


class _End:
    def __init__(self, role: str, folder: Path, run_id: str) -> None:
        self.agent = Attestation(role)
        self._run_id = run_id
        self._place = folder / f"{role}-1"
        self._lines: list[str] = []
        self.head = self.public_key = ""

    def ask(self, params: Json) -> None:
        answer = self.agent.handle(params)
        self._lines += answer["lines"]
        self.head, self.public_key = answer["head"], answer["public_key"]
        self._place.parent.mkdir(exist_ok=True)
        text = "".join(f"{line}\n" for line in self._lines)
        self._place.with_suffix(".ndjson").write_text(text, encoding="utf-8")
        self._place.with_suffix(".dsse.json").write_text(json.dumps(answer["envelope"]), encoding="utf-8")

    def swear(self, params: Json, peer: str) -> None:
        self.ask({**params, "run_id": self._run_id, "peer": peer, "since": len(self._lines)})


def _measure(attempt: Path, role: str, agent: Attestation, row: Json, handed: Handed) -> None:
    cell_id = str(row["cell_id"])
    if not (attempt / "counters.json").is_file():
        return
    agent.prepared(cell_id, str(row["suite_id"]))
    for window, sides in _load(attempt / "traffic.json").get("windows", {}).items():
        if sides.get(role):
            agent.answered(window, sides[role])
    agent.stopped(cell_id, _load(attempt / "counters.json")[role])
    names = {stream: name.format(role) for stream, name in _STREAMS.items()}
    names["power"] = f"power.{role}.csv"
    names["bins"] = "bins.ndjson" if role == "drone" else "bins.gcs.ndjson"
    if role == "drone":
        names["detector"] = "detector.ndjson"
    streams = {stream: _lines(attempt / name) for stream, name in names.items() if (attempt / name).is_file()}
    for stream in ("spans", "events"):
        lines = _lines(attempt / f"{stream}.ndjson")
        streams[stream] = [line for line in lines if json.loads(line)["host"] == role]
    for stream, lines in streams.items():
        page = {"lines": handed(role, stream, lines), "end": True}
        agent.handed_out(cell_id, stream, 0, page)


def _as_they_are(_role: str, _stream: str, lines: list[str]) -> list[str]:
    return lines


def _other(ends: dict[str, _End], role: str) -> str:
    return next(end.head for name, end in ends.items() if name != role)


def _files(attempt: Path) -> str:
    inside = [path for path in attempt.rglob("*") if path.is_file() and path != attempt / "record.json"]
    kept = [path for path in inside if not path.relative_to(attempt).parts[0].startswith("attempt-")]
    return _listed(attempt, kept)


def _listed(folder: Path, files: list[Path]) -> str:
    named = sorted((path.relative_to(folder).as_posix().encode(), path) for path in files)
    rows = [hashlib.sha256(path.read_bytes()).hexdigest().encode() + b"  " + name for name, path in named]
    return hashlib.sha256(b"".join(row + b"\n" for row in rows)).hexdigest()


def _load(path: Path) -> Json:
    loaded: Json = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return loaded


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
