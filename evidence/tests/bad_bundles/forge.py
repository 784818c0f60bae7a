"""Tools of a forger: edit a bundle's files and make everything around the edit fit again."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, median
from typing import Any

from fixture_cell import log_of

Json = dict[str, Any]
Spoil = Callable[[Path], None]
Registry = dict[str, tuple[str, Spoil]]
PRIMITIVES = {
    "keygen": "kem_keygen_ms",
    "encaps": "kem_encaps_ms",
    "decaps": "kem_decaps_ms",
    "sign": "sig_sign_ms",
    "verify": "sig_verify_ms",
}


def registering(registry: Registry, check: str) -> Callable[[Spoil], Spoil]:
    """Decorator: file a function under its name with the check that must reject its bundle."""

    def register(function: Spoil) -> Spoil:
        registry[function.__name__] = (check, function)
        return function

    return register


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def save(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def load_lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def save_lines(path: Path, rows: list[Json]) -> None:
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows), encoding="utf-8")


def load_table(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="ascii") as handle:
        return list(csv.reader(handle))


def save_table(path: Path, rows: list[list[str]]) -> None:
    path.write_text("".join(",".join(row) + "\n" for row in rows), encoding="ascii")


def cells(root: Path) -> list[Path]:
    """Cell folders, sorted by their name."""
    return sorted(path for path in (root / "data" / "cells").iterdir() if path.is_dir())


def cell_of(root: Path, part: str) -> Path:
    """The cell whose suite id holds `part`."""
    for row in load(root / "data" / "plan.json")["cells"]:
        if part in row["suite_id"]:
            return root / "data" / "cells" / str(row["cell_id"])
    raise LookupError(part)


def edit(path: Path, change: Callable[[Any], None]) -> None:
    value = load(path)
    change(value)
    save(path, value)


def edit_field(cell: Path, letter: str, name: str, **changes: Any) -> None:
    """Change members of one field of a record."""
    edit(cell / "record.json", lambda record: record["categories"][letter][name].update(changes))


def counted(path: Path) -> Iterator[tuple[str, str, Json]]:
    """(role, window, counters) of every window; the document is saved when the loop ends."""
    document = load(path)
    for role in ("drone", "gcs"):
        for window, counters in document[role]["windows"].items():
            yield role, window, counters
        total = document[role]
        for name in next(iter(total["windows"].values())):
            if not name.startswith("digest"):
                total[name] = sum(int(window[name]) for window in total["windows"].values())
    save(path, document)


# ---------------------------------------------------------------- making the surroundings fit


def finish(root: Path, *, report: bool = True, prints: bool = True, logs: bool = True) -> None:
    """Logs, hashes of the raw files, report hash, metadata sizes and tag files for what lies there now."""
    if logs:
        for cell in cells(root):
            _log(cell)
    if prints:
        _fingerprints(root / "data")
    if report:
        _report(root / "data")
    _crate(root / "data")
    rebag(root)


def _log(cell: Path) -> None:
    """The controller's log as its events tell it."""
    if (cell / "events.ndjson").is_file() and (cell / "logs" / "controller.log").is_file():
        text = log_of(load_lines(cell / "events.ndjson"))
        (cell / "logs" / "controller.log").write_text(text, encoding="utf-8")


def rebag(root: Path) -> None:
    """New manifest and tag manifest."""
    names = sorted(p.relative_to(root).as_posix() for p in (root / "data").rglob("*") if p.is_file())
    _write_digests(root / "manifest-sha512.txt", root, names)
    _write_digests(root / "tagmanifest-sha512.txt", root, ["bagit.txt", "manifest-sha512.txt"])


def _write_digests(path: Path, root: Path, names: list[str]) -> None:
    lines = [f"{hashlib.sha512((root / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    path.write_text("".join(lines), encoding="utf-8")


def _fingerprints(data: Path) -> None:
    path = data / "analysis" / "fingerprints.csv"
    if not path.is_file():
        return
    rows = load_table(path)
    for row in rows[1:]:
        base = data / "cells" / row[1] if row[1] else data
        inside = [p.relative_to(base).as_posix() for p in base.rglob("*") if p.is_file()]
        if not row[1]:
            whole = ("scenario.effective.yml", "plan.json", "providers.json", "run.json")
            begins = ("hosts/", "lineage/", "corrections/")
            inside = [name for name in inside if name in whole or name.startswith(begins)]
        if not base.is_dir():
            continue
        contents = {name: (base / name).read_bytes() for name in sorted(inside)}
        lines = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items()]
        digest = hashlib.sha256("".join(lines).encode()).hexdigest()
        row[2:] = [str(len(contents)), str(sum(map(len, contents.values()))), digest]
    save_table(path, rows)


def _crate(data: Path) -> None:
    path = data / "ro-crate-metadata.json"
    document = load(path)
    files = {p.relative_to(data).as_posix() for p in data.rglob("*") if p.is_file()} - {path.name}
    kept = []
    for entity in document["@graph"]:
        if entity.get("@type") == "File":
            if (name := entity["@id"]) not in files:
                continue
            entity["contentSize"] = str((data / name).stat().st_size)
            files.remove(name)
        kept.append(entity)
    document["@graph"] = kept + [
        {"@id": name, "@type": "File", "contentSize": str((data / name).stat().st_size)}
        for name in sorted(files)
    ]
    save(path, document)


def _report(data: Path) -> None:
    names = ["plan.json", *(f"cells/{p.parent.name}/record.json" for p in data.glob("cells/*/record.json"))]
    names += [f"analysis/{p.name}" for p in data.glob("analysis/*.csv")]
    digest = hashlib.sha256()
    for name in sorted(names):
        for part in (name.encode(), (data / name).read_bytes()):
            digest.update(len(part).to_bytes(8, "big") + part)
    for page in ("report.html", "report.md"):
        path = data / page
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            old = (
                text.partition('numbers-sha256" content="')[2][:64]
                or text.partition("numbers sha256: ")[2][:64]
            )
            path.write_text(text.replace(old, digest.hexdigest()), encoding="utf-8")


def rename_cells(root: Path) -> None:
    """After a change of scenario or builds: the scenario's hash, and ids of all cells wherever they stand."""
    data = root / "data"
    text = (data / "scenario.effective.yml").read_bytes()
    scenario, providers, plan = json.loads(text), load(data / "providers.json"), load(data / "plan.json")
    plan["scenario_sha256"] = hashlib.sha256(text).hexdigest()
    renamed: dict[str, str] = {}
    for row in plan["cells"]:
        condition = next(c for c in scenario["conditions"] if c["name"] == row["condition"])
        blocks = {key: scenario[key] for key in ("handshake", "traffic", "bulk", "ledger", "telemetry")}
        condition = {k: v for k, v in condition.items() if k not in ("suites", "repetitions")}
        content = {
            "condition": {**condition, **blocks},
            "providers": {"drone": providers["drone"], "gcs": providers["gcs"]},
            "repetition": row["repetition"],
            "suite": row["suite_id"],
        }
        key = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        renamed[row["cell_id"]] = row["cell_id"] = hashlib.sha256(key).hexdigest()[:16]
    save(data / "plan.json", plan)
    for old, new in renamed.items():
        folder = data / "cells" / old
        edit(folder / "record.json", lambda record, new=new: record.update(cell_id=new))
        folder = folder.rename(data / "cells" / new)
        for path in folder.rglob("*"):
            if path.suffix in (".lp", ".ndjson", ".log"):
                path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        for name in ("run.json", "ro-crate-metadata.json", "analysis/fingerprints.csv"):
            path = data / name
            path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def retick(cell: Path) -> None:
    """What the samplers read of the tunnels' counters, as the cell's present spans and ledgers have it."""
    offset = next(e["t_ns"] - e["mono_ns"] for e in load_lines(cell / "events.ndjson") if "mono_ns" in e)
    walls = [row for row in load_lines(cell / "spans.ndjson") if row["step"] == "handshake"]
    for role in ("drone", "gcs"):
        rows = load_table(cell / f"ledger.{role}.csv")[1:]
        moments = {
            "hs_completed": sorted(row["end_ns"] + offset for row in walls if row["host"] == role),
            "tx_data": sorted(int(row[5]) for row in rows if row[0] == "tx"),
            "rx_ok": sorted(int(row[5]) for row in rows if row[0] == "rx"),
        }
        path = cell / f"telemetry.{role}.lp"
        lines = []
        for line in path.read_text(encoding="utf-8").splitlines():
            at = int(line.rsplit(" ", 1)[1]) - 10_000_000
            for name, times in moments.items():
                line = re.sub(rf",{name}=\d+i", f",{name}={bisect_right(times, at)}i", line)
            lines.append(line)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def refit(cell: Path) -> None:
    """Handshake, primitive and latency figures of the record that fit its present spans and ledgers."""
    record = load(cell / "record.json")
    fields = record["categories"]

    def put(letter: str, name: str, values: list[float], function: Callable[[list[float]], float]) -> None:
        fields[letter][name]["value"] = round(function(values), 6)
        fields[letter][name]["n"] = len(values)

    shakes: dict[str, list[Json]] = {}
    for row in load_lines(cell / "spans.ndjson"):
        shakes.setdefault(row["handshake_id"], []).append(row)

    def lengths(rows: list[Json], **match: str) -> float:
        found = [r for r in rows if all(r[key] == value for key, value in match.items())]
        return sum(r["end_ns"] - r["start_ns"] for r in found) / 1e6

    walls = [lengths(rows, host="drone", step="handshake") for rows in shakes.values()]
    crypto = [lengths(rows, kind="crypto") for rows in shakes.values()]
    put("D", "handshake_total_duration_ms", walls, median)
    put("D", "handshake_min_ms", walls, min)
    put("D", "handshake_max_ms", walls, max)
    ground = [lengths(rows, host="gcs", step="handshake") for rows in shakes.values()]
    put("D", "handshake_gcs_duration_ms", ground, median)
    ratios = [w / c for w, c in zip(walls, crypto, strict=True)]
    put("D", "handshake_over_crypto_ratio", ratios, median)
    put("E", "crypto_critical_path_ms", crypto, median)
    for step, name in PRIMITIVES.items():
        put("E", name, [lengths(rows, kind="crypto", step=step) for rows in shakes.values()], median)
    if (cell / "ledger.drone.csv").is_file() and (cell / "ledger.gcs.csv").is_file():
        sent = [r for r in load_table(cell / "ledger.drone.csv")[1:] if r[0] == "tx"]
        arrived = {(r[1], r[2]): r for r in load_table(cell / "ledger.gcs.csv")[1:] if r[0] == "rx"}
        pairs = [(r, arrived[r[1], r[2]]) for r in sent if r[6] == "traffic" and (r[1], r[2]) in arrived]
        latency = [(int(there[5]) - int(here[4])) / 1e6 for here, there in pairs]
        put("H", "one_way_latency_p50_ms", latency, median)
        put("H", "one_way_latency_mean_ms", latency, fmean)
        fields["G"]["packets_sent_count"]["value"] = len(sent)
    save(cell / "record.json", record)
