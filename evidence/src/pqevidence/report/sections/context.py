"""Published values beside ours, the environment, methods and limits generated from the scenario."""

from __future__ import annotations

from pqbase.documents import Json, number_of, numbers_of, part_of, texts_of
from pqevidence.analysis.effects import ASSUMED_FLOOR_RATIO
from pqevidence.analysis.floor import MIN_FLOOR_PAIRS_COUNT
from pqevidence.analysis.load import Cell as RawCell
from pqevidence.analysis.stats import BOOTSTRAP_RUNS_COUNT, MIN_RUNS_COUNT
from pqevidence.record.quiet import busy_told
from pqevidence.record.verdict import BUSY
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Facts, Paragraphs, Section, Table, label, missing, number
from pqevidence.report.source import Source
from pqevidence.report.svg import counted


def published(source: Source) -> Section | None:
    """Measured beside published, with a numbered note on what was wrong with each source."""
    rows = source.rows("comparison")
    if not rows:
        return None
    notes: list[tuple[str, str, str]] = []
    lines = []
    for r in rows:
        note = (r["source"], r["published_host"], r["known_wrong"])
        if note not in notes:
            notes.append(note)
        lines.append(
            [
                label(r["quantity"]),
                label(r["subject"]),
                number(r["measured"]),
                blocks.count(r["measured_n"]),
                label(r["ring"]),
                number(r["published"]),
                label(r["published_n"]),
                label(r["source"]),
                label(f"note {notes.index(note) + 1}"),
            ]
        )
    sentences = tuple(f"Note {i}. {s}, {h}. Known wrong: {w}." for i, (s, h, w) in enumerate(notes, start=1))
    return Section(
        "published",
        "Published values beside ours",
        (
            Table(
                "published-table",
                "Measured here and published elsewhere, in milliseconds",
                (
                    Column("quantity"),
                    Column("subject"),
                    Column("measured", "ms", True),
                    Column("n", "cells or handshakes", True),
                    Column("ring"),
                    Column("published", "ms", True),
                    Column("published n"),
                    Column("source"),
                    Column("known wrong"),
                ),
                blocks.rows_of(lines),
                source.ring,
                "analysis/comparison.csv",
                collapsed=len(lines) > 40,
            ),
            Paragraphs(
                "published-notes",
                sentences,
                as_list=True,
                folded=f"What is known to be wrong with them: {counted(len(sentences), 'note')}",
            ),
        ),
        "Different machines, so no effect is claimed; the column shows the size of what was published "
        "and the notes "
        "say why it need not be a measurement.",
    )


def environment(source: Source) -> Section:
    """Hosts, what kept the controller steady, providers, images, self-test."""
    parts: list[blocks.Block] = [_hosts(source), *_steadiness(source)]
    providers = source.bundle.providers
    ends = [_flatten(part_of(providers, role, {})) for role in ("drone", "gcs")]
    names = sorted({key for end in ends for key in end})
    if names:
        lines = [
            [
                label(name),
                *(label(end[name]) if name in end else missing("not reported") for end in ends),
                label("yes" if ends[0].get(name) == ends[1].get(name) else "no"),
            ]
            for name in names
        ]
        parts.append(
            Table(
                "providers",
                "Builds that ran on each end",
                (Column("provider"), Column("drone"), Column("GCS"), Column("equal")),
                blocks.rows_of(lines),
                source.ring,
                "providers.json",
            )
        )
    images = part_of(providers, "images", {})
    if images:
        parts.append(
            Table(
                "images",
                "Container images by content digest",
                (Column("image"), Column("digest")),
                tuple((label(k), label(v)) for k, v in sorted(images.items())),
                source.ring,
                "providers.json",
            )
        )
    return Section("environment", "Environment", tuple(parts))


def _hosts(source: Source) -> Table:
    roles = ("drone", "gcs", "controller")
    facts = [part_of(source.bundle.hosts[role], "host", {}) for role in roles]
    names = [
        "machine",
        "cpu_model",
        "cpu_count",
        "kernel",
        *(name for name in ("emulated", "wine") if any(fact.get(name) for fact in facts)),
        "hostname",
        "in_container",
        "board_revision",
        "cpu_features",
    ]
    lines = []
    for name in names:
        line = [label(name.replace("_", " "))]
        for fact in facts:
            value = fact.get(name)
            if isinstance(value, list):
                value = " ".join(str(v) for v in value)
            if isinstance(value, bool):
                value = "yes" if value else "no"
            line.append(label(value) if value not in (None, "") else missing("not reported by the host"))
        lines.append(line)
    for role_test in ("selftest",):
        line = [label("self-test")]
        for role in roles:
            test = source.bundle.hosts[role].get(role_test)
            if not isinstance(test, dict):
                line.append(missing("no self-test on this host"))
                continue
            items = test.get("items") or []
            good = sum(1 for item in items if item.get("ok"))
            line.append(label(f"{good} of {len(items)} known answers right"))
        lines.append(line)
    return Table(
        "hosts",
        "Hosts as they described themselves",
        (Column("fact"), Column("drone"), Column("GCS"), Column("controller")),
        blocks.rows_of(lines),
        source.ring,
        "hosts/drone.json",
        sortable=False,
        also=("hosts/gcs.json", "hosts/controller.json"),
    )


def _steadiness(source: Source) -> list[Table]:
    """The controller's machine before and after; nothing where the run did not look (older, simulated)."""
    found = source.bundle.hosts["controller"].get("steadiness")
    if not isinstance(found, dict) or not isinstance(found.get("after"), dict):
        return []
    after = {row["name"]: row["observed"] for row in found["after"]["findings"]}
    lines = []
    for row in found["before"]["findings"]:
        later = after.get(row["name"])
        lines.append(
            [
                label(row["name"]),
                label(row["observed"]),
                label(later) if later else missing("not looked at"),
                label(row["expected"]),
            ]
        )
    return [
        Table(
            "steadiness",
            "The controller's machine before the first cell and after the last",
            (Column("what"), Column("before"), Column("after"), Column("wanted")),
            blocks.rows_of(lines),
            source.ring,
            "hosts/controller.json",
            sortable=False,
        )
    ]


def _flatten(value: Json, prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, dict):
            flat.update(_flatten(inner, f"{name} "))
        elif inner is not None:
            flat[name] = str(inner)
    return flat


def methods(source: Source) -> Section:
    """Sentences made from the effective scenario, and the limits that follow from it."""
    scenario = source.bundle.scenario
    suites = texts_of(scenario, "suites", [])
    items: list[tuple[str, Cell]] = [
        (
            "suites",
            label(f"{len({c.suite_id for c in source.bundle.cells})} of {len(suites)} named"),
        ),
        ("repetitions", label(scenario.get("repetitions", "not recorded"))),
        ("conditions", label(", ".join(str(c.get("name")) for c in source.bundle.conditions))),
        ("order", label(part_of(scenario, "order", {}).get("method", "not recorded"))),
        ("seed", label(scenario.get("seed", "not recorded"))),
        ("ledger", label("on" if scenario.get("ledger") else "off")),
        ("plan digest", label(source.bundle.plan.get("scenario_sha256", "not recorded"))),
    ]
    for path, origin in sorted(part_of(scenario, "overrides", {}).items()):
        value = _at(scenario, path)
        shown = f"{len(value)} entries" if isinstance(value, list) else value
        items.append((f"set by {origin}", label(f"{path} = {shown}")))
    return Section(
        "methods",
        "Methods and limits",
        (
            Facts("scenario-facts", "Effective scenario", tuple(items)),
            Paragraphs("method-list", tuple(_methods(source, scenario)), as_list=True),
            Paragraphs("limit-list", tuple(_limits(source, scenario)), as_list=True),
        ),
    )


def _at(scenario: Json, path: str) -> object:
    """The value at a dotted path of the scenario."""
    value: object = scenario
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _methods(source: Source, scenario: Json) -> list[str]:
    sentences = []
    handshake = part_of(scenario, "handshake", {})
    if handshake:
        sentences.append(
            f"Each cell repeats the cold handshake {handshake.get('count')} times or for "
            f"{handshake.get('max_s')} s, "
            f"whichever comes first, and at least {handshake.get('min_count')} times, in a labelled "
            "window of its own."
        )
    traffic = part_of(scenario, "traffic", {})
    if traffic:
        sentences.append(
            f"MAVLink runs for {traffic.get('session_s'):g} s at a nominal {traffic.get('rate_hz'):g} Hz "
            f"(profile {traffic.get('profile')}, source {traffic.get('source')}); a cell outside the "
            "traffic contract "
            "is invalid, is repeated at most twice, and every attempt stays in the bundle."
        )
    bulk = part_of(scenario, "bulk", {})
    if bulk:
        rates = ", ".join(f"{rate:g}" for rate in numbers_of(bulk, "rates_pps"))
        sentences.append(
            f"Bulk datagrams of {bulk.get('size_bytes')} B are offered at {rates} a second, "
            f"{bulk.get('step_s'):g} s each; "
            "the sink verifies every byte."
        )
    sentences.append(
        "Spans are independent pairs of start and end on one host's monotonic clock; none is obtained by "
        "subtraction, "
        "and their sum per host is printed as span cover."
    )
    sentences.append(
        f"Below {MIN_RUNS_COUNT} cells nothing but the median is printed. Intervals are of the geometric "
        "mean: Student's t on "
        f"logarithms below {BOOTSTRAP_RUNS_COUNT} cells, bootstrap-t from there on, seeded with the "
        "campaign's seed."
    )
    sentences.append(
        "The noise floor is what the mean that is claimed comes to where nothing differs (99 %), from at "
        f"least {MIN_FLOOR_PAIRS_COUNT} pairs of equal cells of the same decade of cost; with fewer, only "
        f"effects beyond a ratio of {ASSUMED_FLOOR_RATIO:g} are stated."
    )
    return sentences


def busy_machine(source: Source) -> str | None:
    """The sentence that a busy machine needs; None of one that was quiet, or that nobody could ask."""
    told = busy_told(source.bundle.run)
    disturbed = sum(BUSY in findings_of(cell) for cell in source.bundle.cells)
    if told is None and not disturbed:
        return None
    return (
        f"Busy machine: {told or 'it was quiet before the first cell, and not in all of them'}. "
        f"{disturbed} of {len(source.bundle.cells)} cells are invalid for that reason, and no time of theirs "
        "is printed."
    )


def findings_of(cell: RawCell) -> Json:
    """Names of what was wrong with a cell → what was seen."""
    return dict(part_of(cell.value("R", "verdict_findings") or {}, "value", {}))


def rekeys_told(source: Source) -> str:
    """What stands beside the model of Φ(R) in this bundle."""
    if source.has("rekeys"):
        return "what rekeys did here stands in the section on rekeys"
    return "no rekey was performed"


def _limits(source: Source, scenario: Json) -> list[str]:
    traffic = part_of(scenario, "traffic", {})
    sentences = []
    if source.ring == "lab":
        sentences.append(
            "Ring lab: containers on one machine. The figures are about protocol, network and CPU cost "
            "of that machine; "
            "they are no claim about a board's speed, temperature or supply."
        )
    elif source.ring == "sim":
        sentences.append("Ring sim: virtual time, no physical claim at all.")
    if source.repetitions < MIN_RUNS_COUNT:
        sentences.append(
            f"{source.repetitions} repetition{'s' if source.repetitions > 1 else ''} a suite: no single "
            "suite carries an "
            "interval, and differences between two suites are not claimed."
        )
    if traffic and number_of(traffic, "session_s", 0.0) < 10:
        sentences.append("Sessions are shorter than 10 s, so the rate is held to ± 10 % and not to ± 2 %.")
    if scenario.get("ledger"):
        sentences.append("The ledger was on: latency is measured, and CPU figures include its cost.")
    else:
        sentences.append("The ledger was off: CPU figures exclude its cost, and there is no latency.")
    if not source.has_links:
        sentences.append("No impairment: nothing here says how a suite behaves on a lossy or slow link.")
    busy = busy_machine(source)
    if busy:
        sentences.append(busy)
    sentences.append(f"Φ(R) is a model; {rekeys_told(source)}.")
    router = ", the link router where the condition has one" if source.has_links else ""
    sentences.append(
        f"Latency includes both tunnel ends and the bridge between two containers{router}, and no radio."
    )
    return sentences
