"""Bundles of this version under the number of an earlier one, whose pages and tables nobody may read.

The forger is careful: what the earlier version did not write yet is taken out (fields, tables, columns, keys,
events), as the bundle of that version in the tree's tests has it, and the page is drawn anew before it is
changed.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from adversary.catalogue import forgery
from adversary.raw import ROLES, Bundle, Json, load
from adversary.rebuild import rebuild
from pqevidence.pages import render
from pqevidence.tables import analyse

_ARCHIVES = Path(__file__).resolve().parents[3] / "conduct" / "tests" / "bundles"
_DOCUMENTS = ("scenario.effective.yml", "plan.json", "providers.json", "run.json")
_SCHEDULED = ("cpu_ns", "runqueue_ns", "involuntary", "scheduling_reason")


class Shape:
    """What a version wrote, read off a bundle that it sealed."""

    def __init__(self, data: Path) -> None:
        record = load(next(data.glob("cells/*/record.json")))
        self.fields = {letter: set(fields) for letter, fields in record["categories"].items()}
        self.tables = {
            path.name: path.read_text(encoding="utf-8").split("\n", 1)[0].split(",")
            for path in data.glob("analysis/*.csv")
        }
        self.format = {path.name: path.read_bytes() for path in data.glob("format/*")}


@cache
def shape(version: str) -> Shape:
    from pqevidence.bundle.unpack import unpack

    archive = _ARCHIVES / f"bundle-{version}.tar.zst"
    with tempfile.TemporaryDirectory() as folder, archive.open("rb") as content:
        return Shape(unpack(content, Path(folder)).bundle / "data")


def relabel(bundle: Bundle, version: str) -> None:
    """The bundle as that version would have left it, honest but for the number."""
    bundle.edit("run.json", lambda run: run.update(pqlab_version=version))
    if version == "0.1.0":
        _before_waiting(bundle)
    rebuild(bundle.root)
    written = shape(version)
    for cell in bundle.cells:

        def fewer(record: Json) -> None:
            for letter, fields in record["categories"].items():
                for name in set(fields) - written.fields[letter]:
                    del fields[name]

        cell.edit("record.json", fewer)
    analyse(bundle.root)
    for path in bundle.data.glob("analysis/*.csv"):
        if path.name not in written.tables:
            if version == "0.1.0":
                path.unlink()
            continue
        rows = read(path)
        put(path, written.tables[path.name], rows)
    for name in ("format", "datapackage.json"):
        target = bundle.data / name
        if version == "0.1.0" and target.exists():
            shutil.rmtree(target) if target.is_dir() else target.unlink()
    digest(bundle)
    render(bundle.root)
    digest(bundle)


def _before_waiting(bundle: Bundle) -> None:
    def plain(run: Json) -> None:
        for session in run.get("sessions") or []:
            for name in ("settle", "warm_up"):
                session.pop(name, None)

    bundle.edit("run.json", plain)
    for role in ROLES:
        bundle.edit(
            f"hosts/{role}.json", lambda host: [host.pop(k, None) for k in ("dataplane_asked", "clock_costs")]
        )
    for cell in bundle.cells:
        cell.change_lines("spans.ndjson", lambda row: [row.pop(key, None) for key in _SCHEDULED])
        cell.keep_lines("events.ndjson", lambda row: row["event"] != "processors")
        cell.change_lines(
            "events.ndjson", lambda row: row.pop("dataplane", None) if row["event"] == "prepare" else None
        )
        cell.log_from_events()


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))


def put(path: Path, columns: list[str], rows: list[dict[str, str]]) -> None:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, columns, lineterminator="\n", extrasaction="ignore", restval="")
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(out.getvalue(), encoding="utf-8")


def digest(bundle: Bundle) -> None:
    """Hashes of all files, where the tables have them, and that of the numbers in both pages."""
    prints = bundle.data / "analysis" / "fingerprints.csv"
    if prints.is_file():
        rows = read(prints)
        for row in rows:
            base = bundle.data / "cells" / row["cell_id"] if row["cell_id"] else bundle.data
            files = [p for p in base.rglob("*") if p.is_file()]
            if not row["cell_id"]:
                files = [
                    p
                    for p in files
                    if (p.name in _DOCUMENTS and p.parent == base) or p.parent.name == "hosts"
                ]
            names = sorted((p.relative_to(base).as_posix(), p) for p in files)
            lines = "".join(f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {name}\n" for name, p in names)
            row.update(
                files_count=str(len(names)),
                size_bytes=str(sum(p.stat().st_size for _, p in names)),
                sha256=hashlib.sha256(lines.encode()).hexdigest(),
            )
        put(prints, list(rows[0]), rows)
    data, whole = bundle.data, hashlib.sha256()
    names = ["plan.json", *(p.relative_to(data).as_posix() for p in data.glob("cells/*/record.json"))]
    names += [f"analysis/{p.name}" for p in data.glob("analysis/*.csv")]
    for name in sorted(names):
        for part in (name.encode(), (data / name).read_bytes()):
            whole.update(len(part).to_bytes(8, "big") + part)
    for page in ("report.html", "report.md"):
        text = (data / page).read_text(encoding="utf-8")
        text = re.sub(
            r'(numbers-sha256" content="|numbers sha256: `?)\w{64}', lambda m: m[1] + whole.hexdigest(), text
        )
        (data / page).write_text(text, encoding="utf-8")


def in_pages(bundle: Bundle, change: Callable[[str], str]) -> None:
    for page in ("report.html", "report.md"):
        path = bundle.data / page
        text = path.read_text(encoding="utf-8")
        changed = change(text)
        assert changed != text
        path.write_text(changed, encoding="utf-8")


def halved(text: str) -> str:
    """Every time of 1.… ms or alone in its cell reads half of it."""
    return re.sub(
        r"(?<=[>| ])(\d+\.\d{2,4})(?=[<| ])", lambda m: f"{float(m[1]) / 2:.{len(m[1].split('.')[1])}f}", text
    )


def page_halved(bundle: Bundle) -> None:
    in_pages(bundle, halved)


def page_of_one_suite_halved(bundle: Bundle) -> None:
    suite = bundle.cells[0].suite

    def change(text: str) -> str:
        return "\n".join(
            halved(line) if suite in line else line for line in text.replace("</tr>", "</tr>\n").split("\n")
        )

    in_pages(bundle, change)


def rows_exchanged(bundle: Bundle) -> None:
    """by_suite.csv and every page name one suite for another."""
    one, other = _two(bundle)
    path = bundle.data / "analysis" / "by_suite.csv"
    rows = read(path)
    for row in rows:
        row["suite_id"] = {one: other, other: one}.get(row["suite_id"], row["suite_id"])
    put(path, list(rows[0]), rows)
    in_pages(bundle, lambda text: text.replace(one, "\0").replace(other, one).replace("\0", other))
    digest(bundle)


def _two(bundle: Bundle) -> tuple[str, str]:
    first, second = list(dict.fromkeys(cell.suite for cell in bundle.cells))[:2]
    return first, second


def table_scaled(bundle: Bundle) -> None:
    path = bundle.data / "analysis" / "traffic.csv"
    rows = read(path)
    for row in rows:
        for column in ("latency_p50_ms", "latency_max_ms", "latency_p95_ms", "latency_p99_ms"):
            if row.get(column):
                row[column] = f"{float(row[column]) / 10:.9g}"
    put(path, list(rows[0]), rows)
    digest(bundle)


def tail_cut(bundle: Bundle) -> None:
    path = bundle.data / "analysis" / "handshakes.csv"
    rows = read(path)
    for row in rows:
        row["drone_wall_p95_ms"] = f"{float(row['drone_wall_min_ms']) / 2:.9g}"
    put(path, list(rows[0]), rows)
    digest(bundle)


def cipher_renamed(bundle: Bundle) -> None:
    for cell in bundle.cells:

        def other(record: Json) -> None:
            record["categories"]["B"]["kem_algorithm"]["value"] = "ML-KEM-1024"

        cell.edit("record.json", other)
    digest(bundle)


def null_filled(bundle: Bundle) -> None:
    for cell in bundle.cells:

        def filled(record: Json) -> None:
            for fields in record["categories"].values():
                for field in fields.values():
                    if field["value"] is None and field["unit"] == "ms":
                        field.update(value=0.1, validity="ok", reason=None, n=100)
                        return

        cell.edit("record.json", filled)
    digest(bundle)


def validity_lifted(bundle: Bundle) -> None:
    """What was worked out from a model was measured."""
    for cell in bundle.cells:

        def lifted(record: Json) -> None:
            field = record["categories"]["H"]["one_way_latency_p50_ms"]
            field.update(validity="model", reason="a model of the radio")

        cell.edit("record.json", lifted)
    digest(bundle)


def sentence_added(bundle: Bundle) -> None:
    told = "Certified by an independent laboratory: fit for flight."
    in_pages(
        bundle,
        lambda text: (
            text.replace("</main>", f"<p>{told}</p></main>")
            + (f"\n{told}\n" if "</main>" not in text else "")
        ),
    )


def suites_compared(bundle: Bundle) -> None:
    one, other = _two(bundle)
    told = f"A cold handshake of {one} takes longer than one of {other}."
    in_pages(
        bundle,
        lambda text: (
            text.replace("</main>", f"<p>{told}</p></main>")
            + (f"\n{told}\n" if "</main>" not in text else "")
        ),
    )


def script_added(bundle: Bundle) -> None:
    told = "<script>document.querySelectorAll('td').forEach(c=>c.textContent/=2)</script>"
    path = bundle.data / "report.html"
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", f"{told}</body>"), encoding="utf-8")


def checklist_polished(bundle: Bundle) -> None:
    path = bundle.data / "analysis" / "checklist.csv"
    rows = read(path)
    for row in rows:
        row["status"] = "ok"
        row["evidence"] = (
            row["evidence"].replace("not measured: ", "").replace("0 lost", "0 lost of 1,000,000")
        )
    put(path, list(rows[0]), rows)
    digest(bundle)


def field_of_today_kept(bundle: Bundle) -> None:
    for cell in bundle.cells:

        def more(record: Json) -> None:
            record["categories"]["J"]["command_ack_p50_ms"] = {
                "value": 0.4,
                "unit": "ms",
                "source": "traffic.json",
                "validity": "ok",
                "reason": None,
                "n": 40,
            }

        cell.edit("record.json", more)
    digest(bundle)


BELIEFS: dict[Callable[[Bundle], None], str] = {
    page_halved: "Every time on the page is half of what was measured",
    page_of_one_suite_halved: "One suite takes half of what it took, on the page alone",
    rows_exchanged: "Two suites took what the other one did, in a table and on the page",
    table_scaled: "Latencies in a table are a tenth of what they were",
    tail_cut: "The slowest handshakes were faster than the fastest one, says a column of tails",
    cipher_renamed: "Another KEM was measured, say the records",
    null_filled: "What was not measured has a value",
    validity_lifted: "A figure has another standing than its raw files give it",
    sentence_added: "A laboratory vouches for the run, says the page",
    suites_compared: "The page compares two suites in a sentence without a number",
    script_added: "The page shows other numbers than it holds, once it is opened",
    checklist_polished: "Every point of the checklist was met, with more datagrams than were sent",
    field_of_today_kept: "A field has a value that its version never recorded",
}


def _file(version: str, material: str, change: Callable[[Bundle], None]) -> None:
    def relabelled(bundle: Bundle) -> None:
        relabel(bundle, version)
        change(bundle)

    relabelled.__name__ = f"{change.__name__}_of_{version.replace('.', '_')}"
    relabelled.__doc__ = f"{BELIEFS[change]}; the number is that of {version}, which nobody renders."
    forgery("relabelled", material, pages=False)(relabelled)


for _version in ("0.2.0", "0.1.0"):
    for _number, _change in enumerate(BELIEFS):
        _file(_version, ("lab", "sim")[_number % 2], _change)


@forgery("relabelled", "lab", pages=False)
def core_of_a_later_version(bundle: Bundle) -> None:
    """It was measured with 0.2.0; the core is one that came with 1.0.0."""
    known = json.loads(
        (_ARCHIVES.parents[2] / "evidence/src/pqevidence/verify/known_builds.json").read_text()
    )
    row = next(
        r for r in known if r["library"] == "core" and r["pqlab"] == "1.0.0" and r["machine"] == "x86_64"
    )

    def later(both: Json) -> None:
        for role in ROLES:
            both[role]["core"] = {"version": row["version"], "sha256": row["sha256"]}

    bundle.edit("providers.json", later)
    bundle.rename()
    relabel(bundle, "0.2.0")


@forgery("relabelled", "lab", "sim", pages=False)
def label_alone(bundle: Bundle) -> None:
    """It was measured with 0.1.0; nothing but the number is changed."""
    bundle.edit("run.json", lambda run: run.update(pqlab_version="0.1.0"))
    digest(bundle)


@forgery("every witness rewritten", "lab", "sim", witnessed=False, pages=False)
def called_0_2_0_and_nothing_else(bundle: Bundle) -> None:
    """It was measured with 0.2.0, by builds that nobody here knows; every number is as it was."""
    relabel(bundle, "0.2.0")


@forgery("every witness rewritten", "lab", "sim", witnessed=False, pages=False)
def called_0_1_0_and_nothing_else(bundle: Bundle) -> None:
    """It was measured with 0.1.0, by builds that nobody here knows; every number is as it was."""
    relabel(bundle, "0.1.0")
