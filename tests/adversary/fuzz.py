"""Random values in place of raw ones, a field at a time: which fields does nobody witness?

    PYTHONPATH=tests python -m adversary.fuzz                     every field, then the table
    PYTHONPATH=tests python -m adversary.fuzz --write             the same, and into docs/WITNESSES.md with it
    PYTHONPATH=tests python -m adversary.fuzz --trials 5 telemetry    longer, for files with that word

A trial takes one file of an honest bundle, changes every value of one field in it by one rule drawn from the
seed (a factor, a shift, another letter), lets the lab's builder make the records again, and asks `verify`. A
field is witnessed where each trial is stopped. Nothing here knows what a field means, or what the checks look
at; the same seed makes the same trials.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adversary.material import MATERIALS
from adversary.raw import MS, Bundle, Json, load, save
from adversary.run import write_between
from pqevidence.errors import LabError
from pqevidence.records import build_record, load_context
from pqevidence.verify import verify_bundle

BEGIN, END = "<!-- fuzz: begin -->\n", "<!-- fuzz: end -->\n"
SEED, TRIALS = 1, 2
#: the records' own rules take the cell for no result, so that nobody is led to believe anything
WITHDRAWN = "verdict"
FACTORS = (0.5, 0.8, 1.25, 2.0, 10.0)
SHIFTS_NS = (-500 * MS, -20 * MS, 20 * MS, 500 * MS)
#: whole numbers above are moments of realtime or of a monotonic clock: they are shifted
MOMENT = 10**12
#: what names a place in the bundle says nothing that could be false by itself
_IDENTITY = re.compile(r"(^|\.)(cell_id|run_id|handshake_id|suite_id|schema\w*|scenario_sha256)$")
_END = re.compile(r"\b(?:drone|gcs)\b")
_NAME = re.compile(r"[0-9a-f]{16}|(?:cs|xs)-.*")
_RUN_FILES = (
    "run.json", "plan.json", "providers.json", "hosts/drone.json", "hosts/gcs.json", "hosts/controller.json",
)  # fmt: skip
_BUILDER_ERRORS = (
    LabError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError, OSError, StopIteration,
)  # fmt: skip
Rule = Callable[[Any], Any]


@dataclass(frozen=True, order=True)
class Field:
    """One field of one kind of file. `<end>` stands for either end, `[]` for a place in a list."""

    file: str
    path: str


@dataclass(frozen=True)
class Trial:
    """What became of one change. `stopped_by` is empty where verify says nothing and the cell passes."""

    field: Field
    where: str
    change: str
    stopped_by: tuple[str, ...]


def _below(path: str, key: str) -> str:
    step = "<id>" if _NAME.fullmatch(key) else _END.sub("<end>", key)
    return f"{path}.{step}" if path else step


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) of everything in a document that is there: neither null nor an empty text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, _below(path, str(key)))
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, f"{path}[]")
    elif value is not None and value != "":
        yield path, value


def changed(value: Any, at: str, rule: Rule, path: str = "") -> Any:
    """The document with `rule` applied to every leaf at this path."""
    if isinstance(value, dict):
        return {key: changed(inner, at, rule, _below(path, str(key))) for key, inner in value.items()}
    if isinstance(value, list):
        return [changed(inner, at, rule, f"{path}[]") for inner in value]
    return rule(value) if path == at and value is not None and value != "" else value


def read(path: Path) -> list[Json]:
    """A raw file as documents: one a line of NDJSON, line protocol (`series.field`) or CSV, else one."""
    if path.suffix == ".ndjson":
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [{str(r["event"]): r} if isinstance(r, dict) and "event" in r else {"row": r} for r in rows]
    if path.suffix == ".lp":
        return [_line(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if path.suffix == ".csv":
        lines = [line.split(",") for line in path.read_text(encoding="ascii").splitlines()]
        return [dict(zip(lines[0], map(_number, row), strict=True)) for row in lines[1:]]
    return [load(path)]


def write(path: Path, rows: list[Json]) -> None:
    """The reverse of read."""
    if path.suffix == ".ndjson":
        text = "".join(json.dumps(v, separators=(",", ":")) + "\n" for row in rows for v in row.values())
    elif path.suffix == ".lp":
        text = "".join(_lp(row) for row in rows)
    elif path.suffix == ".csv":
        header = path.read_text(encoding="ascii").split("\n", 1)[0]
        text = header + "\n" + "".join(",".join(str(v) for v in row.values()) + "\n" for row in rows)
    else:
        save(path, rows[0])
        return
    path.write_text(text, encoding="utf-8")


def _line(line: str) -> Json:
    head, rest = line.split(" ", 1)
    body, stamp = rest.rsplit(" ", 1)
    series = head.split(",", 1)[0]
    fields = dict(part.split("=", 1) for part in body.split(","))
    told = {key: _number(value) for key, value in fields.items()}
    return {series: told, "t_ns": int(stamp), "#": {"head": head}}


def _lp(row: Json) -> str:
    series = next(iter(row))
    return f"{row['#']['head']} {','.join(f'{k}={v}' for k, v in row[series].items())} {row['t_ns']}\n"


class Whole(int):
    """A whole number of line protocol, written with its `i`."""

    def __str__(self) -> str:
        return f"{int(self)}i"


def _number(text: str) -> Any:
    if re.fullmatch(r"-?\d+i", text):
        return Whole(text[:-1])
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def rule_of(sample: Any, rng: random.Random) -> tuple[str, Rule]:
    """A change of values like this one, in words and as a function."""
    if isinstance(sample, bool):
        return "the contrary", lambda value: not value if isinstance(value, bool) else value
    if isinstance(sample, int) and abs(sample) >= MOMENT:
        by_ns = rng.choice(SHIFTS_NS)
        return f"{by_ns / 1e9:+g} s", lambda value: _later(value, by_ns)
    if isinstance(sample, int | float):
        factor = rng.choice(FACTORS)
        return f"× {factor:g}", lambda value: _times(value, factor)
    letter = rng.choice("bdgkmz")
    return f"{letter} at its end", lambda value: _spelled(value, letter)


def _later(value: Any, by_ns: int) -> Any:
    return type(value)(value + by_ns) if isinstance(value, int) and not isinstance(value, bool) else value


def _spelled(value: Any, letter: str) -> Any:
    if not isinstance(value, str):
        return value
    quoted = value.endswith('"')
    return f'{value[:-2]}{letter}"' if quoted else f"{value[:-1]}{letter}"


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if value == 0:
        return type(value)(1)
    return type(value)(round(value * factor) if isinstance(value, int) else value * factor)


class Ground:
    """An honest bundle to try fields on, its fields, and the files that have each of them."""

    def __init__(self, kind: str, root: Path) -> None:
        self.kind, self.root = kind, root
        self.places: dict[Field, list[str]] = {}
        for name in _names(root):
            label = _END.sub("<end>", re.sub(r"^cells/[0-9a-f]{16}/", "", name))
            for path in sorted({p for row in read(root / "data" / name) for p, _ in leaves(row)}):
                if not _IDENTITY.search(path) and not path.startswith("#"):
                    self.places.setdefault(Field(label, path), []).append(name)

    def attempt(self, field: Field, number: int, seed: int, folder: Path) -> Trial | None:
        """Change the field in one file, made again below `folder`; None where the draw changes nothing."""
        rng = random.Random(f"{seed}/{field.file}/{field.path}/{number}")
        name = rng.choice(self.places[field])
        rows = read(self.root / "data" / name)
        samples = [value for row in rows for path, value in leaves(row) if path == field.path]
        told, rule = rule_of(rng.choice(samples), rng)
        forged = [changed(row, field.path, rule) for row in rows]
        if forged == rows:
            return None
        root = folder / ".work" / self.root.name
        shutil.copytree(self.root, root, ignore=shutil.ignore_patterns("analysis", "report.*", "*manifest*"))
        try:
            write(root / "data" / name, forged)
            _fit(root, name)
            failed = tuple(r.name for r in verify_bundle(root) if r.status == "fail")
            if any(load(p)["verdict"] != "pass" for p in root.glob("data/cells/*/record.json")):
                failed += (WITHDRAWN,)
        finally:
            shutil.rmtree(folder / ".work")
        return Trial(field, name, told, failed)


def _names(root: Path) -> list[str]:
    found = [name for name in _RUN_FILES if (root / "data" / name).is_file()]
    for cell in Bundle(root).cells:
        base = cell.folder.relative_to(root / "data").as_posix()
        inside = sorted(p.relative_to(cell.folder).as_posix() for p in cell.folder.rglob("*") if p.is_file())
        found += [f"{base}/{n}" for n in inside if not n.startswith("logs/") and n != "record.json"]
    return [name for name in found if name.endswith((".json", ".ndjson", ".csv", ".lp"))]


def _fit(root: Path, name: str) -> None:
    """Ids, log and the records that the changed file has a part in; what cannot be made stays as it was."""
    try:
        if name in ("plan.json", "providers.json"):
            Bundle(root).rename()
        context = load_context(root / "data")
        for row in context.plan["cells"]:
            folder = root / "data" / "cells" / row["cell_id"]
            if name.startswith("cells/") and not name.startswith(f"cells/{row['cell_id']}/"):
                continue
            if name.endswith("events.ndjson"):
                next(c for c in Bundle(root).cells if c.folder == folder).log_from_events()
            record = build_record(folder, row, context)
            (folder / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    except _BUILDER_ERRORS as error:
        print(f"{name}: the builder refused: {error}", file=sys.stderr)


def fuzz(
    grounds: Iterable[Ground],
    folder: Path,
    *,
    word: str = "",
    seed: int = SEED,
    trials: int = TRIALS,
    most: int | None = None,
) -> list[Trial]:
    """Each field on the first ground that has it, `trials` times. most: so many of them, by the seed."""
    found: dict[Field, Ground] = {}
    for ground in grounds:
        for field in ground.places:
            if word in field.file:
                found.setdefault(field, ground)
    chosen = sorted(found)
    if most is not None:
        chosen = sorted(random.Random(seed).sample(chosen, min(most, len(chosen))))
    made = (found[field].attempt(field, n, seed, folder) for field in chosen for n in range(trials))
    return [trial for trial in made if trial is not None]


def table(outcomes: list[Trial]) -> str:
    """By kind of file: fields tried, those that each trial was stopped of, and those that none was."""
    by_field: dict[Field, list[bool]] = {}
    for trial in outcomes:
        by_field.setdefault(trial.field, []).append(bool(trial.stopped_by))
    lines = ["| file | fields | witnessed | now and then | nobody witnesses |", "|---|---|---|---|---|"]
    total = [0, 0, 0, 0]
    for file in sorted({field.file for field in by_field}):
        mine = {field.path: told for field, told in by_field.items() if field.file == file}
        always = sum(all(told) for told in mine.values())
        never = sorted(path for path, told in mine.items() if not any(told))
        counts = (len(mine), always, len(mine) - always - len(never), len(never))
        total = [a + b for a, b in zip(total, counts, strict=True)]
        told = ", ".join(f"`{path.removeprefix('row.')}`" for path in never)
        row = (f"`{file}`", *map(str, counts[:3]), f"{counts[3]}: {told}" if told else "0")
        lines.append(f"| {' | '.join(row)} |")
    lines.append(f"| all | {total[0]} | {total[1]} | {total[2]} | {total[3]} |")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="adversary.fuzz", description=__doc__)
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--fields", type=int, metavar="N", help="N of them, drawn from the seed")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        grounds = [Ground(kind, make(folder / kind)) for kind, make in MATERIALS.items() if kind != "sim"]
        outcomes = fuzz(grounds, folder, word=args.word, seed=args.seed, trials=args.trials, most=args.fields)
    for trial in outcomes:
        told = ", ".join(trial.stopped_by[:3]) or "SURVIVES"
        print(f"{trial.field.file} {trial.field.path} {trial.change}: {told}")
    text = table(outcomes)
    print(text)
    if args.write:
        write_between(BEGIN, text, END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
