"""The account of all searches: hours.json, one row for each target, state of its parser's code, and engine.

Hours add up from campaign to campaign and count for the code they were spent on alone. `fingerprint` leaves
out comments, docstrings, layout and words to the linter: a parser that only reads better is the same parser.

    python tests/fuzz/hours.py              # what counts today
    python tests/fuzz/hours.py --document   # the table of README.md
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import engine  # noqa: E402
import native  # noqa: E402
import targets  # noqa: E402

LEDGER = HERE / "hours.json"
SCHEMA = "pqlab/fuzz-hours/v1"
GOAL_S = 3600.0
"""Processor time that each parser is owed, without a finding left."""
README = HERE / "README.md"
BEGIN, END = "<!-- hours:begin -->", "<!-- hours:end -->"


def subjects() -> dict[str, targets.Target | native.NativeTarget]:
    """Every target by name, what strangers reach first in front."""
    table = targets.table()
    wire = ("wire", "handshake", "session", "control-frames")
    return {name: table[name] for name in wire} | native.TARGETS | table


def fingerprint(patterns: tuple[str, ...]) -> str:
    """12 hex digits of a parser's code. Raises ValueError for a pattern that names no file."""
    digest = hashlib.sha256()
    for pattern in patterns:
        paths = sorted(native.ROOT.glob(pattern))
        if not paths:
            raise ValueError(f"{pattern} names no file")
        for path in paths:
            text = path.read_text(encoding="utf-8")
            meant = {".py": _python, ".rs": _rust}.get(path.suffix, str)(text)
            digest.update(f"{path.relative_to(native.ROOT).as_posix()}\0{meant}\0".encode())
    return digest.hexdigest()[:12]


def _python(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [part for part in body if not _is_text(part)]  # type: ignore[attr-defined]
    return _dumped(tree)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _dumped(node: Any) -> str:
    """As ast.dump, which writes empty fields in some versions of Python only."""
    if isinstance(node, ast.AST):
        fields = (
            f"{name}={_dumped(value)}" for name, value in ast.iter_fields(node) if value not in (None, [])
        )
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(_dumped, node))}]"
    return repr(node)


def _rust(text: str) -> str:
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith(("//", "#[allow(")))


def load() -> dict[str, list[dict[str, Any]]]:
    """Rows by target, oldest first."""
    if not LEDGER.is_file():
        return {}
    document = json.loads(LEDGER.read_text(encoding="utf-8"))
    return dict(document["targets"])


@contextmanager
def _alone() -> Iterator[None]:
    with (HERE / ".hours.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def add(name: str, code: str, result: engine.Result, commit: str | None = None) -> None:
    """Book one search of the code with this fingerprint, last changed by `commit`."""
    today = time.strftime("%Y-%m-%d", time.gmtime())
    with _alone():
        table = load()
        rows = table.setdefault(name, [])
        row = next((r for r in rows if r["code"] == code and r["engine"] == result.engine), None)
        if row is None:
            row = {"code": code, "commit": commit, "engine": result.engine, "first": today}
            row |= {"searches": 0, "cpu_s": 0.0, "executions": 0, "edges": None, "findings": 0}
            rows.append(row)
        row["last"] = today
        row["searches"] += 1
        row["cpu_s"] = round(row["cpu_s"] + result.cpu_s, 1)
        row["executions"] += result.executions
        row["edges"] = max(row["edges"] or 0, result.edges or 0) or None
        row["findings"] += len(result.findings)
        document = {"schema": SCHEMA, "targets": {key: table[key] for key in sorted(table)}}
        half = LEDGER.with_suffix(".half")
        half.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        half.replace(LEDGER)


def commit_of(patterns: tuple[str, ...]) -> str | None:
    """The commit that last changed a parser's files; None outside a repository."""
    asked = ["git", "-C", str(native.ROOT), "log", "-1", "--format=%h", "--abbrev=12", "--", *patterns]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def spent_s(name: str, code: str) -> float:
    """Processor seconds of search that this code has had, all engines together."""
    return float(sum(row["cpu_s"] for row in load().get(name, []) if row["code"] == code))


def table() -> str:
    """The ledger in Markdown: a row a target, of the code it was last searched on."""
    booked = load()
    lines = [
        "| target | reads | CPU, h | executions | edges | findings | code, last changed by | last |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, subject in subjects().items():
        rows = booked.get(name, [])
        if not rows:
            lines.append(f"| {name} | {subject.about} | 0 | – | – | – | – | never |")
            continue
        # of one day's rows the one booked last
        code = max(reversed(rows), key=lambda row: row["last"])["code"]
        of_code = [row for row in rows if row["code"] == code]
        hours = sum(row["cpu_s"] for row in of_code) / 3600
        executions = sum(row["executions"] for row in of_code)
        edges = max((row["edges"] or 0 for row in of_code), default=0)
        findings = sum(row["findings"] for row in of_code)
        lines.append(
            f"| {name} | {subject.about} | {hours:.2f} | {executions:,} | {edges or '–'} | {findings} "
            f"| {code}, {of_code[0]['commit']} | {of_code[-1]['last']} |"
        )
    return "\n".join(lines)


def documented(text: str) -> str:
    """README.md with the table as it is now."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


def main() -> int:
    if sys.argv[1:] == ["--document"]:
        README.write_text(documented(README.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    for name, subject in subjects().items():
        code = fingerprint(subject.code)
        spent = spent_s(name, code)
        state = "done" if spent >= GOAL_S else f"{(GOAL_S - spent) / 3600:.2f} h to go"
        print(f"{name:16} {code}  {spent / 3600:6.3f} h  {state}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
