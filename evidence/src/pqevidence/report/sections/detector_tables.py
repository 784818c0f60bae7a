"""Detectors as tables: what they are, what they said, how well, and what they cost; silent without any."""

from __future__ import annotations

from typing import Any

from pqevidence.analysis.detectors import ALL
from pqevidence.analysis.stats import median
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Paragraphs, Table, label, missing, not_applicable, number
from pqevidence.report.inference import UNITS
from pqevidence.report.source import RawRow, Source, anchor, record_link
from pqevidence.report.svg import significant

Json = dict[str, Any]
WORDS = {"improved": "less", "regressed": "more"}
ARCHITECTURE = {
    "trees": "gradient-boosted trees", "transformer": "time-series transformer",
    "cascade": "cascade of two models", "rule": "rule, no model",
}  # fmt: skip


def facts_of(source: Source) -> dict[str, Json]:
    """Detector → what providers.json says of it."""
    found: dict[str, Json] = source.bundle.providers.get("detectors") or {}
    return found


def models(source: Source) -> Table:
    """The property table, from the cards that lay in the images."""
    facts = facts_of(source)
    rows = []
    for title, unit, read in _PROPERTIES:
        rows.append([label(title), label(unit), *(_property(named, read) for named in facts.values())])
    return Table(
        "det-models",
        "Detection models of this campaign, by their model cards",
        (Column("property"), Column("unit"), *(Column(name) for name in facts)),
        blocks.rows_of(rows),
        source.ring,
        "providers.json",
        "Input: tunnel counters in bins of 20 ms, 30 of them a window of 0.6 s, never the payload. Time to "
        "the first verdict is from an empty history; longer input only adds to it.",
        sortable=False,
    )


def _inference(card: Json) -> object:
    """Median time of a whole step, µs."""
    told = card.get("inference")
    return told.get("median_us") if isinstance(told, dict) else None


_PROPERTIES: tuple[tuple[str, str, Any], ...] = (
    ("architecture", "", lambda c, f: ARCHITECTURE.get(str(c.get("kind")), c.get("kind"))),
    ("model", "", lambda c, f: f.get("model")),
    ("history it uses", "windows", lambda c, f: c.get("history_windows")),
    ("window", "s", lambda c, f: c.get("window_s")),
    ("parameters", "count", lambda c, f: c.get("parameters_count")),
    ("size", "B", lambda c, f: c.get("size_bytes")),
    ("time to first verdict", "s", lambda c, f: c.get("time_to_first_verdict_s")),
    ("inference", "µs", lambda c, f: _inference(c)),
    ("threads", "count", lambda c, f: c.get("threads", 1)),
    ("output", "", lambda c, f: "ATTACK and DEGRADED, a score and a decision each"),
    ("SHA-256 of the model", "", lambda c, f: str(f.get("sha256") or "")[:16] or None),
    ("image", "", lambda c, f: str(f.get("image_id") or "").removeprefix("sha256:")[:12] or None),
)


def _property(named: Json, read: Any) -> Cell:
    value = read(named.get("card") or {}, named)
    if value is None or value == "":
        return missing("the card does not say")
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return blocks.count(int(value))
    return number(value) if isinstance(value, float) else label(value)


def verdicts(source: Source) -> Table:
    """One row a cell with a detector."""
    rows = [row for row in source.rows("detectors") if row["detector"] not in ("", "none")]
    return Table(
        "det-verdicts",
        "What each cell's detector said of the traffic window",
        (
            Column("suite"),
            Column("condition"),
            Column("rep", "", True),
            Column("history"),
            Column("history at first verdict", "windows", True),
            Column("due", "windows", True),
            Column("verdicts", "n", True),
            Column("late", "n", True),
            Column("latency p50", "ms", True),
            Column("latency p95", "ms", True),
            Column("first verdict", "s", True),
            Column("ATTACK", "windows", True),
            Column("DEGRADED", "windows", True),
            Column("false alarms", "n", True),
            Column("attacks", "n", True),
            Column("detected", "n", True),
            Column("canary after", "s", True),
            Column("CPU", "% of a core", True),
            Column("RSS", "MB", True),
            Column("ready"),
            Column("raw"),
        ),
        blocks.rows_of([_verdict_row(source, row) for row in rows]),
        source.ring,
        "analysis/detectors.csv",
        "Windows of 0.6 s that lie wholly in the traffic window. Late: more than one window after its end. "
        "Warm history: what the detector saw in earlier cells of this campaign.",
        collapsed=len(rows) > 60,
    )


def _verdict_row(source: Source, row: RawRow) -> list[Cell]:
    why = row["reason"] or "the cell is no result"
    ready = {"true": "yes", "false": "no"}.get(row["ready"], "–")
    return [
        label(row["suite_id"], href=anchor(row["cell_id"])),
        label(row["condition"]),
        blocks.count(source.nth(row["repetition"])),
        label(row["history"] or "–"),
        *(
            blocks.count(row[c], reason=why)
            for c in ("history_windows_count", "due_count", "verdict_count", "deadline_missed_count")
        ),
        number(row["latency_p50_ms"], reason=why),
        blocks.tail(row["latency_p95_ms"], n=row["verdict_count"], reason=why),
        number(row["first_verdict_s"], reason=why),
        *(
            blocks.count(row[c], reason=why)
            for c in ("alarm_count", "degraded_count", "false_alarm_count", "episode_count", "detected_count")
        ),
        number(row["canary_delay_s"], reason="the canary was not raised, or an alarm stood before it"),
        number(row["cpu_mean_pct"], reason=why),
        number(row["rss_mb"], reason=why),
        label(ready),
        record_link(row["cell_id"]),
    ]


def quality(source: Source) -> Table:
    """Each detector beside rules that need no model, on the same windows."""
    rows = source.rows("detector_quality")
    return Table(
        "det-quality",
        "Detection against ground truth, and trivial rules on the same windows",
        (
            Column("judge"),
            Column("on cells of"),
            Column("cells", "n", True),
            Column("windows", "n", True),
            Column("attack-free", "h", True),
            Column("false alarms", "n", True),
            Column("false alarms", "1/h", True),
            Column("95 % interval", "1/h"),
            Column("attacks", "n", True),
            Column("detected", "n", True),
            Column("recall", "%", True),
            Column("delay, median", "s", True),
            Column("canaries raised", "n", True),
            Column("late", "n", True),
            Column("without", "n", True),
        ),
        blocks.rows_of([_quality_row(row) for row in rows]),
        source.ring,
        "analysis/detector_quality.csv",
        "False alarms: alarms that began while no visible attack lasted nor had ended within 3 s; exact "
        "Poisson interval. These hours are few: what a rate of 0.5 an hour means takes the evaluation of "
        "docs/DETECTORS.md. Without: windows that no verdict was made on.",
    )


def _quality_row(row: RawRow) -> list[Cell]:
    none = "no visible attack in these cells"
    low, high = row["false_alarms_low_per_h"], row["false_alarms_high_per_h"]
    between = (
        label(f"{significant(float(low))} to {significant(float(high))}") if low and high else missing("")
    )
    raised = f"{row['canary_raised_count']} of {row['canary_count']}" if row["canary_count"] else None
    return [
        label(row["watcher"]),
        label(row["detector"]),
        blocks.count(row["n_cells"]),
        blocks.count(row["judged_count"]),
        number(row["quiet_h"]),
        blocks.count(row["false_alarm_count"]),
        number(row["false_alarms_per_h"], reason="no attack-free time"),
        between,
        blocks.count(row["episode_count"]),
        blocks.count(row["detected_count"]),
        number(row["recall_pct"], reason=none),
        number(row["delay_median_s"], reason=none),
        label(raised) if raised else not_applicable(),
        blocks.count(row["deadline_missed_count"]) if row["deadline_missed_count"] else not_applicable(),
        blocks.count(row["missing_count"]) if row["missing_count"] else not_applicable(),
    ]


def overhead(source: Source) -> Table:
    """Per process and for handshakes by family: without, with, difference, against the noise floor."""
    rows = source.rows("detector_overhead")
    lines = [
        [
            label(row["condition"]),
            label(row["reference"]),
            label(row["label"]),
            label(row["scope"]),
            blocks.count(row["n_pairs"]),
            number(row["reference_median"]),
            number(row["condition_median"]),
            number(row["delta"]),
            label(row["unit"]),
            number(row["delta_pct"], reason="the reference is 0"),
            _interval(row),
            number(row["floor"]),
            label(f"{row['floor_method']}, {row['floor_pairs']} pairs"),
            number(row["visible_effect"], reason="nothing was inferred"),
            label(WORDS.get(row["verdict"], row["verdict"])),
            label(row["ring"]),
        ]
        for row in rows
    ]
    return Table(
        "det-overhead",
        "What a running detector costs the rest, against the same cells without one",
        (
            Column("condition"),
            Column("against"),
            Column("metric"),
            Column("scope"),
            Column("pairs", "n", True),
            Column("without", "", True),
            Column("with", "", True),
            Column("Δ", "", True),
            Column("unit"),
            Column("Δ", "%", True),
            Column("95 % interval of the effect"),
            Column("noise floor", "", True),
            Column("floor from"),
            Column("seen from", "", True),
            Column("verdict"),
            Column("ring"),
        ),
        blocks.rows_of(lines),
        source.ring,
        "analysis/detector_overhead.csv",
        "A pair is two cells of one suite and block. Without, with: medians over the pairs. Interval: ratio "
        "of geometric means, or mean difference. A verdict other than `not distinguishable` needs Holm's "
        "p ≤ 0.05 over all rows of its metric and an effect beyond the noise floor. Seen from: a smaller "
        f"effect would not have been seen. {UNITS['suite']}",
        collapsed=len(lines) > 60,
    )


def _interval(row: RawRow) -> Cell:
    low, high = row["effect_low"], row["effect_high"]
    if not low or not high:
        return missing("fewer than 3 pairs, or no spread")
    return label(f"{significant(float(low))} to {significant(float(high))}")


def recommendations(source: Source) -> Paragraphs:
    """Sentences from verdicts only; where nothing is distinguishable they say that."""
    sentences = []
    for row in source.rows("detector_overhead"):
        if row["scope"] != ALL:
            continue
        word = WORDS.get(row["verdict"])
        if word is not None:
            sentences.append(
                f"{row['condition']} against {row['reference']}: {word} {row['label']} "
                f"({significant(float(row['reference_median']))} → "
                f"{significant(float(row['condition_median']))} "
                f"{row['unit']}, {row['n_pairs']} pairs, ring {row['ring']})."
            )
    own = [
        row for row in source.rows("detectors") if row["detector"] not in ("", "none") and row["cpu_mean_pct"]
    ]
    by_name: dict[str, list[float]] = {}
    for row in own:
        by_name.setdefault(row["detector"], []).append(float(row["cpu_mean_pct"]))
    for name, values in by_name.items():
        middle = median(values)
        assert middle is not None
        sentences.append(
            f"{name} itself took {significant(middle)} % of one core (median of {len(values)} "
            f"cell{'s' if len(values) != 1 else ''}, ring {source.ring})."
        )
    distinct = any(row["verdict"] in WORDS for row in source.rows("detector_overhead") if row["scope"] == ALL)
    if not distinct:
        sentences.append("No cost of a detector to the rest of the cell is distinguishable from noise here.")
    return Paragraphs("det-recommendations", tuple(sentences), as_list=True)
