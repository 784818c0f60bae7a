"""A bench bundle: the raw folders, tables and page in a BagIt bag; checked by making it again."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from pqevidence.analysis.table import Table as Values
from pqevidence.bundle import numbers_sha256
from pqevidence.bundle.bag import BagError, payload, read_manifest, sha512_file, write_tags
from pqevidence.errors import EXIT_USAGE, LabError
from pqevidence.report.blocks import Report, Section, compact, folded, label
from pqevidence.report.blocks import Table as PageTable
from pqevidence.report.html import render_html
from pqevidence.report.markdown import render_markdown
from pqlab.bench import (
    energy,
    published,
    sections_energy,
    sections_ladder,
    sections_time,
    tables,
    tree,
    verdicts,
)
from pqlab.bench.board import BoardLog, read_log
from pqtunnel.bench.summary import Check

MADE = ("report.html", "report.md")
_SKIPPED = (".lock",)


def write(folder: Path, energy_folder: Path | None, board_log: Path | None, out: Path) -> list[Check]:
    """Make the bundle `out` from a result folder of either mode. Returns the checks of the raw tree.

    Raises LabError for what cannot be read, or where `out` is there already.
    """
    if out.exists():
        raise LabError(
            "exists",
            f"{out.name} is there already",
            "a bundle is written once",
            "name another --out, or check this one: ./pqlab bench-report --check",
            EXIT_USAGE,
        )
    mode = tree.object_of(folder / "environment.json").get("mode")
    if mode == "energy" and energy_folder is not None:
        raise LabError(
            "bench-mode",
            "both folders are of the energy mode",
            "one bundle holds one energy run",
            "name a performance folder first",
            EXIT_USAGE,
        )
    sources = {"performance": folder, "energy": energy_folder} if mode != "energy" else {"energy": folder}
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        work.chmod(0o755)
        data = work / "data"
        for name, source in sources.items():
            if source is not None:
                shutil.copytree(source, data / name, ignore=shutil.ignore_patterns(*_SKIPPED))
        if board_log is not None:
            read_log(board_log)
            (data / "board").mkdir(parents=True)
            shutil.copyfile(board_log, data / "board" / "serial.log")
        checks = make(data)
        write_tags(work)
        work.rename(out)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return checks


def make(data: Path) -> list[Check]:
    """Write analysis/*.csv and the page of the raw folders under `data`; the checks of the raw tree."""
    measured = tree.load(data / "performance") if (data / "performance").is_dir() else None
    run = energy.load(data / "energy") if (data / "energy").is_dir() else None
    log_file = data / "board" / "serial.log"
    board = read_log(log_file) if log_file.is_file() else None
    theirs = published.load()
    analysis = data / "analysis"
    analysis.mkdir(parents=True, exist_ok=True)
    ladder = tables.ladder(measured, board, theirs)
    made = {"ladder": ladder}
    if measured is not None:
        made["times"] = tables.times(measured, theirs)
        made["sizes"] = tables.sizes(measured, theirs)
        made["integrity"] = tables.integrity(measured)
        made["files"] = tables.files(measured)
        made["timeline"] = tables.timeline(measured)
    if run is not None:
        made["energy"] = tables.energy(run, theirs)
    if board is not None:
        made["board-ladder"] = board.table()
    for table in made.values():
        table.write(analysis)
    report = _report(data, measured, run, board, made)
    (data / "report.html").write_text(render_html(report), encoding="utf-8", newline="\n")
    (data / "report.md").write_text(render_markdown(report), encoding="utf-8", newline="\n")
    return list(measured.checks) if measured is not None else []


def _report(
    data: Path,
    measured: tree.Tree | None,
    run: energy.Run | None,
    board: BoardLog | None,
    made: dict[str, Values],
) -> Report:
    environment = measured.environment if measured is not None else run.environment if run is not None else {}
    sections: list[Section | None] = []
    answer: Section | None = None
    if measured is not None:
        times = made["times"]
        answer = sections_time.answer(measured, times)
        sections += [
            sections_time.summary(measured, times),
            sections_time.setting(environment),
            sections_time.coverage(measured),
            sections_time.times_section(measured, times, "kem", "Key encapsulation"),
            sections_time.times_section(measured, times, "sig", "Signatures"),
            sections_time.times_section(measured, times, "aead", "AEAD"),
            sections_time.times_section(measured, times, "suites", "Full handshakes"),
            sections_time.sizes_section(measured, made["sizes"]),
        ]
    else:
        sections.append(sections_time.setting(environment))
    sections.append(sections_ladder.ladder_section(made["ladder"], board))
    sections.append(
        sections_energy.no_energy() if run is None else sections_energy.energy_section(run, made["energy"])
    )
    ring = measured.ring if measured is not None else run.ring if run is not None else "lab"
    host = str(environment.get("host", "unknown host"))
    sections.append(
        sections_energy.recommendations(
            verdicts.time_verdicts(measured) if measured is not None else [],
            verdicts.energy_verdicts(run) if run is not None else [],
            f"{ring}, {host}",
            run is not None and run.synthetic,
        )
    )
    if measured is not None:
        sections.append(sections_time.integrity_section(measured))
    checks = measured.checks if measured is not None else ()
    counts = (("pass", sum(c.passed for c in checks)), ("fail", sum(not c.passed for c in checks)))
    return Report(
        title="Primitive benchmark",
        subtitle="Post-quantum MAVLink tunnel lab",
        run_id=f"build {environment.get('build', 'unknown')}",
        ring=ring,
        verdicts=counts,
        head=(("host", label(host)), ("cpu", label(environment.get("cpu") or "not reported"))),
        numbers_sha256=numbers_sha256(data),
        sections=tuple(_compact(folded(s)) for s in sections if s is not None),
        answer=answer,
        tiles="checks of the raw files",
        footer="Every file this page links lies in the same bundle; ./pqlab bench-report --check makes its "
        "numbers again from the raw ones.",
    )


def _compact(section: Section) -> Section:
    parts = tuple(compact(part) if isinstance(part, PageTable) else part for part in section.blocks)
    return replace(section, blocks=parts)


def check(root: Path) -> list[Check]:
    """Fixity, the raw tree's checks, and tables and page made again byte for byte. Changes nothing."""
    results = [_fixity(root)]
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / "data"
        for name in ("performance", "energy", "board"):
            if (root / "data" / name).is_dir():
                shutil.copytree(root / "data" / name, again / name)
        if not again.is_dir():
            raise tree.BenchTreeError(f"{root.name} is no bench bundle", "it holds no raw folder")
        results += make(again)
        wanted = {p.relative_to(again).as_posix() for p in again.glob("analysis/*.csv")} | set(MADE)
        there = {p.relative_to(root / "data").as_posix() for p in (root / "data").glob("analysis/*")}
        bad = sorted(
            (wanted ^ (there | set(MADE)))
            | {
                name
                for name in wanted & (there | set(MADE))
                if not (root / "data" / name).is_file()
                or (root / "data" / name).read_bytes() != (again / name).read_bytes()
            }
        )
    results.append(
        Check(
            "tables and page follow from the raw files",
            not bad,
            ", ".join(bad) or "as expected",
            "the same bytes",
        )
    )
    return results


def _fixity(root: Path) -> Check:
    try:
        promised = read_manifest(root / "manifest-sha512.txt")
        present = set(payload(root))
    except (BagError, OSError) as error:
        return Check("every file as sealed", False, str(error), "none changed, added or missing")
    bad = sorted(set(promised) ^ present)
    bad += [name for name in sorted(present & set(promised)) if sha512_file(root / name) != promised[name]]
    return Check(
        "every file as sealed", not bad, ", ".join(bad[:5]) or "as expected", "none changed, added or missing"
    )
