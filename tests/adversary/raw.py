"""A bundle's raw files as a forger handles them: read, change, write. Nothing of the lab is used here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Json = dict[str, Any]
ROLES = ("drone", "gcs")
OTHER = {"drone": "gcs", "gcs": "drone"}
MS = 1_000_000
S = 1_000_000_000
_SCOPE = ("suites", "repetitions")
_BLOCKS = ("handshake", "traffic", "bulk", "ledger", "telemetry")
#: members of any document that are realtime nanoseconds
_REALTIME = (
    "t_ns", "open_ns", "close_ns", "first_ns", "last_ns", "start_ns", "end_ns", "switch_ns",
    "t_on_ns", "t_off_ns",
)  # fmt: skip


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def save(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


class Cell:
    """One cell's folder. `row` is its row of the plan."""

    def __init__(self, folder: Path, row: Json) -> None:
        self.folder, self.row = folder, row
        self.suite = str(row["suite_id"])

    def lines(self, name: str) -> list[Json]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def put_lines(self, name: str, rows: list[Json]) -> None:
        text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        (self.folder / name).write_text(text, encoding="utf-8")

    def change_lines(self, name: str, change: Callable[[Json], object]) -> None:
        rows = self.lines(name)
        for row in rows:
            change(row)
        self.put_lines(name, rows)

    def keep_lines(self, name: str, keep: Callable[[Json], bool]) -> None:
        self.put_lines(name, [row for row in self.lines(name) if keep(row)])

    def ledger(self, role: str) -> list[list[str]]:
        """Rows without the header: direction, epoch, sequence, size, t_in, t_out, window."""
        text = (self.folder / f"ledger.{role}.csv").read_text(encoding="ascii")
        return [line.split(",") for line in text.splitlines()[1:]]

    def put_ledger(self, role: str, rows: list[list[str]]) -> None:
        path = self.folder / f"ledger.{role}.csv"
        header = path.read_text(encoding="ascii").split("\n", 1)[0]
        path.write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n", encoding="ascii")

    def telemetry(self, role: str, change: Callable[[str, str, dict[str, str], int], int | None]) -> None:
        """Every line through `change(series, tags, fields, t_ns)`, which edits fields and returns the stamp,
        or None to drop the line."""
        path = self.folder / f"telemetry.{role}.lp"
        out = []
        for line in path.read_text(encoding="utf-8").splitlines():
            head, body, stamp = (
                line.split(" ", 1)[0],
                line.split(" ", 1)[1].rsplit(" ", 1)[0],
                line.rsplit(" ", 1)[1],
            )
            series, _, tags = head.partition(",")
            fields = dict(part.split("=", 1) for part in body.split(","))
            t_ns = change(series, tags, fields, int(stamp))
            if t_ns is not None:
                told = ",".join(f"{key}={value}" for key, value in fields.items())
                out.append(f"{series},{tags} {told} {t_ns}\n")
        path.write_text("".join(out), encoding="utf-8")

    def counters(self, change: Callable[[Json], object]) -> None:
        """counters.json through `change`; the totals of what windows have a share of are made again."""
        path = self.folder / "counters.json"
        both = load(path)
        change(both)
        for counted in both.values():
            windows = list(counted["windows"].values())
            for name in windows[0] if windows else {}:
                parts = [window[name] for window in windows]
                if isinstance(parts[0], str):
                    counted[name] = f"{sum(int(part, 16) for part in parts) % (1 << 64):016x}"
                else:
                    counted[name] = sum(parts)
        save(path, both)

    def edit(self, name: str, change: Callable[[Any], object]) -> None:
        value = load(self.folder / name)
        change(value)
        save(self.folder / name, value)

    def handshakes(self) -> dict[str, list[Json]]:
        """Rows of spans.ndjson by handshake, in order of their first row's start."""
        found: dict[str, list[Json]] = {}
        for row in self.lines("spans.ndjson"):
            found.setdefault(row["handshake_id"], []).append(row)
        order = sorted(found, key=lambda key: min(row["start_ns"] for row in found[key]))
        return {key: found[key] for key in order}

    def put_handshakes(self, found: dict[str, list[Json]]) -> None:
        """Back into the file, the drone's rows first, as the lab writes them."""
        rows = [row for rows in found.values() for row in rows]
        self.put_lines("spans.ndjson", [r for role in ROLES for r in rows if r["host"] == role])

    def completed(self, count: int) -> None:
        """Events and the log tell of so many handshakes of a block."""
        for row in (rows := self.lines("events.ndjson")):
            if row["event"] == "handshake_block":
                row["completed"] = count
        self.put_lines("events.ndjson", rows)
        self.log_from_events()

    @property
    def wall(self) -> tuple[int, int]:
        times = [int(row["t_ns"]) for row in self.lines("events.ndjson") if row["host"] == "controller"]
        return min(times), max(times)

    def log_from_events(self) -> None:
        """logs/controller.log as the events tell it."""
        out = []
        for row in self.lines("events.ndjson"):
            if row["host"] != "controller":
                continue
            rest = {k: v for k, v in row.items() if k not in ("t_ns", "host", "event")}
            told = " ".join(f"{key}={json.dumps(value)}" for key, value in rest.items())
            when, part = _utc(int(row["t_ns"])), int(row["t_ns"]) % S
            out.append(f"{when} {part // MS:03d} {row['event']} {told}".rstrip() + "\n")
        (self.folder / "logs" / "controller.log").write_text("".join(out), encoding="utf-8")

    def shift(self, by_ns: int, *, mono_by_ns: int | None = None) -> None:
        """The whole cell takes place `by_ns` later; monotonic times move along unless told otherwise."""
        mono = by_ns if mono_by_ns is None else mono_by_ns

        def moved(value: Any) -> Any:
            if isinstance(value, dict):
                return {
                    key: inner + by_ns if key in _REALTIME and isinstance(inner, int) else moved(inner)
                    for key, inner in value.items()
                }
            return [moved(inner) for inner in value] if isinstance(value, list) else value

        events = []
        for row in self.lines("events.ndjson"):
            row = moved(row)
            if isinstance(row.get("mono_ns"), int):
                row["mono_ns"] += mono
            if isinstance(row.get("mono_s"), float):
                row["mono_s"] += mono / S
            events.append(row)
        self.put_lines("events.ndjson", events)
        self.change_lines(
            "spans.ndjson", lambda r: r.update(start_ns=r["start_ns"] + mono, end_ns=r["end_ns"] + mono)
        )
        for role in ROLES:
            if (self.folder / f"ledger.{role}.csv").is_file():
                rows = self.ledger(role)
                for line in rows:
                    line[4], line[5] = str(int(line[4]) + by_ns), str(int(line[5]) + by_ns)
                self.put_ledger(role, rows)
            self.telemetry(role, lambda _series, _tags, _fields, t_ns: t_ns + by_ns)
        for name in ("traffic.json", "detectors.json", "observers.json"):
            if (self.folder / name).is_file():
                save(self.folder / name, moved(load(self.folder / name)))
        self.log_from_events()


class Bundle:
    """A bundle's folder. Cells in the order of the plan."""

    def __init__(self, root: Path) -> None:
        self.root, self.data = root, root / "data"

    @property
    def cells(self) -> list[Cell]:
        rows = sorted(load(self.data / "plan.json")["cells"], key=lambda row: int(row["position"]))
        return [Cell(self.data / "cells" / row["cell_id"], row) for row in rows]

    def cell(self, part: str, repetition: int = 0) -> Cell:
        """The `repetition`-th cell (0: the first) whose suite holds `part`."""
        return [cell for cell in self.cells if part in cell.suite][repetition]

    def edit(self, name: str, change: Callable[[Any], object]) -> None:
        value = load(self.data / name)
        change(value)
        save(self.data / name, value)

    def edit_cells(self, name: str, change: Callable[[Any], object]) -> None:
        """That file of every cell through `change`."""
        for cell in self.cells:
            cell.edit(name, change)

    def change_lines(self, name: str, change: Callable[[Json], object]) -> None:
        """Every line of that file of every cell through `change`."""
        for cell in self.cells:
            cell.change_lines(name, change)

    def change_readings(self, change: Callable[[dict[str, str]], object], *roles: str) -> None:
        """The fields of every reading of every cell through `change`; of both ends, or of those named."""

        def changed(_series: str, _tags: str, fields: dict[str, str], t_ns: int) -> int:
            change(fields)
            return t_ns

        for cell in self.cells:
            for role in roles or ROLES:
                cell.telemetry(role, changed)

    def scenario(self, change: Callable[[Json], object]) -> None:
        """The effective scenario, which may be YAML; written as JSON, which is YAML."""
        path = self.data / "scenario.effective.yml"
        value = read_yaml(path)
        change(value)
        save(path, value)
        self.rename()

    def rename(self) -> None:
        """After a change of scenario or builds: the scenario's hash and all cell ids, wherever they stand."""
        path = self.data / "scenario.effective.yml"
        scenario, plan, built = (
            read_yaml(path),
            load(self.data / "plan.json"),
            load(self.data / "providers.json"),
        )
        plan["scenario_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        if "conditions" in plan:
            plan["conditions"] = scenario["conditions"]
        renamed = {}
        for row in plan["cells"]:
            condition = next(c for c in scenario["conditions"] if c["name"] == row["condition"])
            settings = {k: v for k, v in condition.items() if k not in _SCOPE}
            settings |= {block: scenario.get(block) for block in _BLOCKS}
            content = {
                "condition": settings,
                "providers": {role: built[role] for role in ROLES},
                "repetition": row["repetition"],
                "suite": row["suite_id"],
            }
            key = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
            renamed[row["cell_id"]] = row["cell_id"] = hashlib.sha256(key).hexdigest()[:16]
        save(self.data / "plan.json", plan)
        for old, new in renamed.items():
            (self.data / "cells" / old).rename(self.data / "cells" / f"{new}.new")
        for old, new in renamed.items():
            folder = (self.data / "cells" / f"{new}.new").rename(self.data / "cells" / new)
            for file in [*folder.rglob("*"), self.data / "run.json"]:
                if file.is_file() and old.encode() in (content := file.read_bytes()):
                    file.write_bytes(content.replace(old.encode(), new.encode()))

    def replan(self, keep: Callable[[Json], bool]) -> None:
        """Drop the cells that `keep` does not want, folders included; the others close up."""
        plan = load(self.data / "plan.json")
        gone = [row for row in plan["cells"] if not keep(row)]
        plan["cells"] = sorted((row for row in plan["cells"] if keep(row)), key=lambda row: row["position"])
        for position, row in enumerate(plan["cells"]):
            row["position"] = position
        save(self.data / "plan.json", plan)
        for row in gone:
            _remove(self.data / "cells" / row["cell_id"])
        for cell in self.cells:
            for event in (rows := cell.lines("events.ndjson")):
                if "position" in event:
                    event["position"] = cell.row["position"]
            cell.put_lines("events.ndjson", rows)
            cell.log_from_events()
        run = load(self.data / "run.json")
        if run.get("verdict_counts"):
            run["verdict_counts"] = {"pass": len(plan["cells"])}
        listed = (run.get("influx") or {}).get("cells") or []
        kept = {row["cell_id"] for row in plan["cells"]}
        if run.get("influx"):
            run["influx"]["cells"] = [entry for entry in listed if entry["cell_id"] in kept]
        save(self.data / "run.json", run)


def scaled(rows: list[Json], factor: float) -> None:
    """All times of one handshake drawn towards its first one; processor times along with them."""
    zero = min(row["start_ns"] for row in rows)
    for row in rows:
        for name in ("start_ns", "end_ns"):
            row[name] = zero + round((row[name] - zero) * factor)
        for name in ("cpu_ns", "runqueue_ns"):
            if isinstance(row.get(name), int):
                row[name] = round(row[name] * factor)


def wall_ns(rows: list[Json]) -> int:
    """The drone's whole wall of one handshake."""
    return next(
        r["end_ns"] - r["start_ns"] for r in rows if r["step"] == "handshake" and r["host"] == "drone"
    )


def read_yaml(path: Path) -> Any:
    """The lab writes YAML, a forger may leave JSON."""
    import yaml

    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def _utc(t_ns: int) -> str:
    return datetime.fromtimestamp(t_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
