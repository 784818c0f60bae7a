"""Scores of the detector over the time of one cell of each condition."""

from __future__ import annotations

from pqevidence.analysis.table import to_float
from pqevidence.report.blocks import Figure
from pqevidence.report.sections.over_time import KINDS, MOST_CELLS, bands_of
from pqevidence.report.source import RawRow, Source
from pqevidence.report.timelines import Line, Strip, timeline


def scores(source: Source) -> list[Figure]:
    """Both scores of the detector in the first cell of each condition that has one; [] without any."""
    if not source.has("detector_scores"):
        return []
    cells: dict[str, list[RawRow]] = {}
    for row in source.rows("detector_scores"):
        cells.setdefault(row["cell_id"], []).append(row)
    ends = {row["cell_id"]: float(row["to_s"]) for row in source.rows("timeline")}
    found = []
    for place, (cell_id, rows) in enumerate(list(cells.items())[:MOST_CELLS]):
        bands, used = bands_of(source, cell_id)
        raised = tuple(float(row["t_s"]) for row in rows if row["attack"] == "true")
        lines = (
            _score("ATTACK", "s-4", rows, "attack_score", raised),
            _score("DEGRADED", "s-3", rows, "degraded_score", ()),
        )
        strip = Strip(f"score of {rows[0]['detector']}", "0 to 1; dots: ATTACK", lines, "no verdict", 1.0)
        found.append(
            Figure(
                f"det-fig-score-{place + 1}",
                f"Scores of {rows[0]['detector']} over one cell: {rows[0]['condition']}, "
                f"{rows[0]['suite_id'].removeprefix('cs-')}",
                timeline(
                    f"svg-det-score-{place + 1}",
                    f"Detector scores over time: {rows[0]['condition']}",
                    ends[cell_id],
                    KINDS,
                    bands,
                    (strip,),
                ),
                source.ring,
                "analysis/detector_scores.csv",
                used,
            )
        )
    return found


def _score(label: str, shade: str, rows: list[RawRow], column: str, marked: tuple[float, ...]) -> Line:
    return Line(label, shade, tuple((float(r["t_s"]), to_float(r[column])) for r in rows), marked)
