"""Findings, the verdict matrix, and what ran where: the run in facts."""

from __future__ import annotations

from collections import Counter

from pqbase.documents import exact_or_none, number_or_none, part_of
from pqevidence.analysis.load import ROLES
from pqevidence.analysis.load import Cell as MeasuredCell
from pqevidence.record.planes import PYTHON
from pqevidence.record.quiet import disturbed_alone
from pqevidence.report import blocks
from pqevidence.report.blocks import (
    Cell,
    Facts,
    Finding,
    Findings,
    Matrix,
    MatrixRow,
    Section,
    label,
    missing,
)
from pqevidence.report.sections.conditions import condition_findings
from pqevidence.report.sections.drift import drift_findings
from pqevidence.report.source import VERDICTS, RawRow, Source, anchor, cell_link, utc
from pqevidence.report.svg import significant

LETTERS = {"pass": "P", "fail": "F", "unsupported": "U", "invalid": "I", "not-run": "–"}
PART_WORDS = {"kem": "KEM", "sig": "signature", "aead": "AEAD"}


def provenance(source: Source) -> Section:
    """What ran, when, from which seed, on what machines."""
    return Section("provenance", "This run", (Facts("run-facts", "The run in facts", _facts(source)),))


def _facts(source: Source) -> tuple[tuple[str, Cell], ...]:
    run, plan, hosts = source.measured, source.bundle.plan, source.bundle.hosts
    drone = part_of(hosts["drone"], "host", {})
    providers = part_of(source.bundle.providers, "drone", {})
    started, ended = exact_or_none(run, "started_ns"), exact_or_none(run, "ended_ns")
    liboqs = part_of(providers, "liboqs", {}).get("version")
    items: list[tuple[str, Cell]] = [
        ("scenario", label(source.bundle.scenario.get("name", "unnamed"))),
        ("started", label(utc(started)) if started else missing("the run wrote no start")),
        (
            "duration",
            label(_duration((ended - started) / 1e9)) if started and ended else missing("no end of run"),
        ),
        ("cells planned", blocks.count(len(source.bundle.cells))),
        ("session", _session(source)),
        ("overrides", _overrides(source)),
        ("campaign seed", label(plan.get("seed", "none recorded"))),
        *_machines(drone, part_of(hosts["gcs"], "host", {})),
        ("data plane", _data_plane(source)),
        ("load average", _load(run)),
        ("liboqs", _optional(liboqs)),
        ("OpenSSL", _optional(providers.get("openssl"))),
    ]
    if corrects := source.bundle.run.get("corrects"):
        items.append(("corrects", label(f"run {corrects}", href="#corrections")))
    if part_of(run, "controller", {}).get("controller_on_dut"):
        items.append(("controller", label("on the measured machine; its CPU is part of the system figures")))
    return tuple(items)


def _session(source: Source) -> Cell:
    """Length of the MAVLink window as planned, and as the drone's gate was really open."""
    seconds = number_or_none(part_of(source.bundle.scenario, "traffic", {}), "session_s")
    if seconds is None:
        return label("no MAVLink window")
    rows = [r for r in source.rows("traffic") if r["window"] == "traffic" and r["direction"] == "down"]
    measured = [float(r["duration_s"]) for r in rows if r["duration_s"]]
    if not measured:
        return label(f"{float(seconds):g} s of MAVLink planned; measured: no gate was open")
    low, high = min(measured), max(measured)
    shown = f"{low:.2f} s" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f} s"
    return label(f"{float(seconds):g} s of MAVLink planned, {shown} measured (n = {len(measured)})")


def _overrides(source: Source) -> Cell:
    """What the command line set over the scenario file."""
    moved = part_of(source.bundle.scenario, "overrides", {})
    if not moved:
        return label("none: the scenario file as it is")
    return label(", ".join(f"{path} ({origin})" for path, origin in sorted(moved.items())))


def _optional(value: object) -> Cell:
    return label(value) if value else missing("the host did not report it")


def _machines(drone: dict[str, object], ground: dict[str, object]) -> list[tuple[str, Cell]]:
    """Machine and kernel of the drone, and of the ground station as well where it is another machine."""
    ends = [("", drone)]
    if any(drone.get(fact) != ground.get(fact) for fact in ("machine", "cpu_model", "kernel")):
        ends = [("drone: ", drone), ("ground: ", ground)]
    items: list[tuple[str, Cell]] = []
    for end, host in ends:
        items.append((f"{end}machine", label(_machine(host)) if host else missing("no host facts")))
        items.append((f"{end}kernel", _optional(host.get("kernel"))))
    return items


def _data_plane(source: Source) -> Cell:
    """Which data plane carried the packets at each end, as the cells that were carried out say."""
    told = {role: _plane_of(source, role) for role in ROLES}
    if not any(told.values()):
        return missing("the agents did not say")
    drone, ground = (text or "not reported" for text in told.values())
    return label(f"{drone} at both ends" if drone == ground else f"drone {drone}, ground {ground}")


def _plane_of(source: Source, role: str) -> str:
    """`native`; with the number of its cells where several ran; '' where nobody says."""
    fields = [cell.value("A", f"dataplane_{role}") for cell in source.bundle.cells]
    cells = Counter(str(field["value"]) for field in fields if field and field["value"] is not None)
    host = source.bundle.hosts.get(role) or {}
    if len(cells) > 1:
        return " and ".join(f"{name} in {count} cells" for name, count in sorted(cells.items()))
    name = next(iter(cells), str(host.get("dataplane") or ""))
    if name != PYTHON or not host.get("dataplane_asked"):
        return name
    if host.get("ring") == "sim":
        return f"{name} (virtual time has no other)"
    return f"{name} ({'as' if host['dataplane_asked'] == PYTHON else 'not'} asked for)"


def _machine(host: dict[str, object]) -> str:
    count = host.get("cpu_count")
    return (
        f"{host.get('cpu_model') or host.get('machine')}, {count} cores"
        if count
        else str(host.get("cpu_model"))
    )


def _load(run: dict[str, object]) -> Cell:
    def shown(values: object) -> str | None:
        return " ".join(f"{float(v):.2f}" for v in values) if isinstance(values, list) else None

    start, end = shown(run.get("loadavg_start")), shown(run.get("loadavg_end"))
    if start is None:
        return missing("the run wrote no load average")
    return label(f"{start} → {end}" if end else start)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {left:02d} s" if minutes else f"{seconds:.1f} s"


def findings(source: Source) -> Section:
    """Statements that a verdict carries, and nothing else."""
    items = [
        *_verdict_findings(source),
        *drift_findings(source),
        *_effect_findings(source),
        *condition_findings(source),
    ]
    return Section(
        "findings",
        "Findings",
        (
            Findings(
                "findings-list",
                tuple(items),
                "No statement: every cell passed and no comparison in this run is distinguishable.",
            ),
        ),
        "Generated from the verdicts of the cells and of the paired comparisons. What is not distinguishable "
        "in this run is not mentioned.",
    )


def _reason(cell: MeasuredCell) -> str:
    """The record's reason; cells that a busy machine disturbed have one, whatever it took of each."""
    if disturbed_alone(cell.record):
        return "The machine was busy with other programs; each cell says how busy."
    return str(cell.record.get("reason") or "no reason recorded")


def _verdict_findings(source: Source) -> list[Finding]:
    found = []
    planned = len(source.bundle.cells)
    for word in ("fail", "invalid", "unsupported", "not-run"):
        reasons: dict[str, list[str]] = {}
        for cell in source.bundle.cells:
            if cell.verdict == word:
                reasons.setdefault(_reason(cell), []).append(cell.cell_id)
        for reason, ids in sorted(reasons.items()):
            found.append(
                Finding(
                    statement=f"{len(ids)} of {planned} cells: {word}. {reason}",
                    effect="no result from these cells enters a statistic",
                    basis=f"n = {len(ids)} cell{'s' if len(ids) != 1 else ''}",
                    ring=source.ring,
                    cells=tuple(cell_link(i, source.cells[i].suite_id) for i in ids),
                    tone=word,
                )
            )
    passed = [cell for cell in source.bundle.cells if cell.verdict == "pass"]
    if passed:
        found.insert(
            0,
            Finding(
                statement=f"{len(passed)} of {planned} cells passed: handshake, traffic contract and "
                "counters "
                "of both ends hold.",
                effect=f"{100.0 * len(passed) / planned:.0f} % of the plan",
                basis=f"n = {len(passed)} cell{'s' if len(passed) != 1 else ''}",
                ring=source.ring,
                cells=tuple(cell_link(c.cell_id, c.suite_id) for c in passed),
                tone="pass",
            ),
        )
    return found


def _effect_findings(source: Source) -> list[Finding]:
    found = []
    for row in source.rows("effects"):
        if row["verdict"] != "distinguishable":
            continue
        found.append(
            Finding(
                statement=_effect_statement(row),
                effect=f"ratio {significant(float(row['ratio']))} "
                f"({significant(float(row['low_ratio']))} to {significant(float(row['high_ratio']))}, "
                f"{100 * float(row['interval_level']):.1f} % {row['method']})",
                basis=f"n = {row['n_suites']} pairs of suites, {row['n_pairs']} of cells; noise floor "
                f"{row['floor_method']}, ratio {significant(float(row['floor_ratio']))}",
                ring=row["ring"],
                cells=tuple(cell_link(i, source.cells[i].suite_id) for i in row["cells"].split()),
            )
        )
    return found


def _effect_statement(row: RawRow) -> str:
    ratio = float(row["ratio"])
    part = PART_WORDS[row["part"]]
    if ratio >= 1.0:
        change = (
            f"{significant(ratio)}\u00a0× as long"
            if ratio >= 2
            else f"{significant(100 * (ratio - 1), 2)} % longer"
        )
    else:
        change = f"{significant(100 * (1 - ratio), 2)} % shorter"
    return (
        f"With {row['family']} in place of {row['reference']} ({part}; level and the other two parts equal) "
        f"a cold handshake takes {change}."
    )


def matrix(source: Source) -> Section:
    """Suites by AEAD, condition and repetition; a letter a cell."""
    aeads: list[str] = []
    rows: dict[str, dict[tuple[str, str, int], Cell]] = {}
    for cell in source.bundle.cells:
        facts = cell.facts
        aead = facts.aead if facts else "other"
        if aead not in aeads:
            aeads.append(aead)
        name = cell.suite_id
        if facts is not None and facts.kem != "none":
            level = f"L{facts.level}" if facts.has_level else facts.level_name
            name = f"{level} {facts.kem} + {facts.sig}"
        rows.setdefault(name, {})[aead, cell.condition, cell.repetition] = blocks.Cell(
            LETTERS[cell.verdict],
            href=anchor(cell.cell_id),
            kind=f"verdict v-{cell.verdict}",
            title=f"{cell.suite_id}, {cell.condition}, repetition {source.nth(cell.repetition)}: "
            f"{cell.verdict}",
        )
    keys = sorted(
        {key for cells in rows.values() for key in cells}, key=lambda k: (aeads.index(k[0]), k[1], k[2])
    )
    heads = tuple(_matrix_head(source, key) for key in keys)
    groups = tuple((aead, sum(1 for key in keys if key[0] == aead)) for aead in aeads)
    lines = tuple(MatrixRow(name, tuple(cells.get(key) for key in keys)) for name, cells in rows.items())
    counts = source.verdict_counts
    legend = ", ".join(f"{LETTERS[word]} {word} ({counts[word]})" for word in VERDICTS)
    return Section(
        "verdicts",
        "Verdict of every cell",
        (Matrix("matrix", f"{legend}. Each letter leads to its cell.", groups, heads, lines, source.ring),),
    )


def _matrix_head(source: Source, key: tuple[str, str, int]) -> str:
    _, condition, repetition = key
    parts = []
    if source.many_conditions:
        parts.append(condition)
    if source.repetitions > 1:
        parts.append(
            f"rep {source.nth(repetition)}" if source.many_conditions else str(source.nth(repetition))
        )
    return " · ".join(parts)
