"""Detectors as tables: what they are, what they said, how well, and what they cost; silent without any."""

from __future__ import annotations

from collections.abc import Callable

from pqbase.documents import Json, part_of, parts_of
from pqevidence.analysis.column import pick
from pqevidence.analysis.stats import median
from pqevidence.measures.detector.tables import ALL, COLUMNS, OVERHEAD_COLUMNS, QUALITY_COLUMNS
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Paragraphs, Table, label, missing, not_applicable, number
from pqevidence.report.columns import RAW, Show, because, cells, counts, heads, of_cell, values
from pqevidence.report.inference import UNITS
from pqevidence.report.source import RawRow, Source, record_link
from pqevidence.report.svg import significant

WORDS = {"improved": "less", "regressed": "more"}
ARCHITECTURE = {
    "trees": "gradient-boosted trees", "transformer": "time-series transformer",
    "cascade": "cascade of two models", "rule": "rule, no model",
}  # fmt: skip


def facts_of(source: Source) -> dict[str, Json]:
    """Detector → what providers.json says of it."""
    providers = source.bundle.providers
    return parts_of(providers, "detectors") if providers.get("detectors") else {}


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


_PROPERTIES: tuple[tuple[str, str, Callable[[Json, Json], object]], ...] = (
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


def _property(named: Json, read: Callable[[Json, Json], object]) -> Cell:
    value = read(part_of(named, "card", {}), named)
    if value is None or value == "":
        return missing("the card does not say")
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return blocks.count(int(value))
    return number(value) if isinstance(value, float) else label(value)


def _why(row: RawRow) -> str:
    return row["reason"] or "the cell is no result"


def _between(low: str, high: str, why: str) -> Show:
    def show(row: RawRow) -> Cell:
        if not row[low] or not row[high]:
            return missing(why)
        return label(f"{significant(float(row[low]))} to {significant(float(row[high]))}")

    return show


def _if_due(name: str) -> Show:
    return lambda row: blocks.count(row[name]) if row[name] else not_applicable()


def _raised(row: RawRow) -> Cell:
    if not row["canary_count"]:
        return not_applicable()
    return label(f"{row['canary_raised_count']} of {row['canary_count']}")


SEEN = ("history_windows_count", "due_count", "verdict_count", "deadline_missed_count")
ALARMS = ("alarm_count", "degraded_count", "false_alarm_count", "episode_count", "detected_count")
OF_A_CELL = pick(
    COLUMNS,
    *("suite_id", "condition", "repetition", "history", *SEEN, "latency_p50_ms", "latency_p95_ms"),
    *("first_verdict_s", *ALARMS, "canary_delay_s", "cpu_mean_pct", "rss_mb", "ready"),
)
#: columns of which the page shows more than number or text
SAID: dict[str, Show] = {
    "history": lambda row: label(row["history"] or "–"),
    **counts(*SEEN, *ALARMS, why=_why),
    **values("latency_p50_ms", "first_verdict_s", "cpu_mean_pct", "rss_mb", why=_why),
    "latency_p95_ms": lambda row: blocks.tail(
        row["latency_p95_ms"], n=row["verdict_count"], reason=_why(row)
    ),
    **values("canary_delay_s", why=because("the canary was not raised, or an alarm stood before it")),
    "ready": lambda row: label({"true": "yes", "false": "no"}.get(row["ready"], "–")),
}
COUNTED = ("n_cells", "judged_count", "false_alarm_count", "episode_count", "detected_count")
JUDGED = pick(
    QUALITY_COLUMNS,
    *("watcher", "detector", "n_cells", "judged_count", "quiet_h", "false_alarm_count"),
    *("false_alarms_per_h", "false_alarms_low_per_h", "episode_count", "detected_count", "recall_pct"),
    *("delay_median_s", "canary_raised_count", "deadline_missed_count", "missing_count"),
)
OF_JUDGES: dict[str, Show] = {
    **counts(*COUNTED),
    **values("false_alarms_per_h", why=because("no attack-free time")),
    "false_alarms_low_per_h": _between("false_alarms_low_per_h", "false_alarms_high_per_h", ""),
    **values("recall_pct", "delay_median_s", why=because("no visible attack in these cells")),
    "canary_raised_count": _raised,
    **{name: _if_due(name) for name in ("deadline_missed_count", "missing_count")},
}
COSTS = pick(
    OVERHEAD_COLUMNS,
    *("condition", "reference", "label", "scope", "n_pairs", "reference_median", "condition_median"),
    *("delta", "unit", "delta_pct", "effect_low", "floor", "floor_method", "visible_effect", "verdict"),
    "ring",
)
OF_COSTS: dict[str, Show] = {
    **counts("n_pairs"),
    **values("delta_pct", why=because("the reference is 0")),
    "effect_low": _between("effect_low", "effect_high", "fewer than 3 pairs, or no spread"),
    "floor_method": lambda row: label(f"{row['floor_method']}, {row['floor_pairs']} pairs"),
    **values("visible_effect", why=because("nothing was inferred")),
    "verdict": lambda row: label(WORDS.get(row["verdict"], row["verdict"])),
}


def verdicts(source: Source) -> Table:
    """One row a cell with a detector."""
    rows = [row for row in source.rows("detectors") if row["detector"] not in ("", "none")]
    special = of_cell(source) | SAID
    return Table(
        "det-verdicts",
        "What each cell's detector said of the traffic window",
        (*heads(OF_A_CELL), RAW),
        blocks.rows_of([[*cells(row, OF_A_CELL, special), record_link(row["cell_id"])] for row in rows]),
        source.ring,
        "analysis/detectors.csv",
        "Windows of 0.6 s that lie wholly in the traffic window. Late: more than one window after its end. "
        "Warm history: what the detector saw in earlier cells of this campaign.",
        collapsed=len(rows) > 60,
    )


def quality(source: Source) -> Table:
    """Each detector beside rules that need no model, on the same windows."""
    rows = source.rows("detector_quality")
    return Table(
        "det-quality",
        "Detection against ground truth, and trivial rules on the same windows",
        heads(JUDGED),
        blocks.rows_of([cells(row, JUDGED, OF_JUDGES) for row in rows]),
        source.ring,
        "analysis/detector_quality.csv",
        "False alarms: alarms that began while no visible attack lasted nor had ended within 3 s; exact "
        "Poisson interval. These hours are few: what a rate of 0.5 an hour means takes the evaluation of "
        "docs/DETECTORS.md. Without: windows that no verdict was made on.",
    )


def overhead(source: Source) -> Table:
    """Per process and for handshakes by family: without, with, difference, against the noise floor."""
    rows = source.rows("detector_overhead")
    return Table(
        "det-overhead",
        "What a running detector costs the rest, against the same cells without one",
        heads(COSTS),
        blocks.rows_of([cells(row, COSTS, OF_COSTS) for row in rows]),
        source.ring,
        "analysis/detector_overhead.csv",
        "A pair is two cells of one suite and block. Without, with: medians over the pairs. Interval: ratio "
        "of geometric means, or mean difference. A verdict other than `not distinguishable` needs Holm's "
        "p ≤ 0.05 over all rows of its metric and an effect beyond the noise floor. Seen from: a smaller "
        f"effect would not have been seen. {UNITS['suite']}",
        collapsed=len(rows) > 60,
    )


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
    for name, shares in by_name.items():
        middle = median(shares)
        assert middle is not None
        sentences.append(
            f"{name} itself took {significant(middle)} % of one core (median of {len(shares)} "
            f"cell{'s' if len(shares) != 1 else ''}, ring {source.ring})."
        )
    distinct = any(row["verdict"] in WORDS for row in source.rows("detector_overhead") if row["scope"] == ALL)
    if not distinct:
        sentences.append("No cost of a detector to the rest of the cell is distinguishable from noise here.")
    return Paragraphs("det-recommendations", tuple(sentences), as_list=True)
