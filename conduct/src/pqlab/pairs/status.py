"""How far every pair is, for machines: `status.json` of the campaign's folder, `pqlab status --json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from pqbase.documents import Json, counts_of, number_of, number_or_none, part_of, whole_of
from pqevidence.errors import LabError
from pqlab.campaign.store import Store, read_json, work_runs, write_json
from pqlab.pairs.folder import STATUS, PairsFolder
from pqlab.progress import clock_text

#: state of a pair: its share is sealed; no run was begun there
SEALED: Final = "sealed"
NOT_BEGUN: Final = "not begun"
_AT_WORK: Final = ("starting", "running", "finishing")


def pair_status(folder: PairsFolder, pair: str, now_ns: int) -> Json:
    """One pair's run as its own folder tells it, as `Store.status_or_begun`; `bundle`: its sealed share."""
    results = folder.results_of(pair)
    runs = work_runs(results)
    if not runs:
        bundle = folder.bundle_of(pair)
        if bundle is None:
            return {
                "pair": pair,
                "state": NOT_BEGUN,
                "done": 0,
                "total": None,
                "verdict_counts": {},
                **_QUIET,
            }
        counts = counts_of(read_json(bundle / "data" / "run.json"), "verdict_counts", {})
        done = sum(counts.values())
        told = {
            "pair": pair,
            "state": SEALED,
            "done": done,
            "total": done,
            "verdict_counts": counts,
            **_QUIET,
        }
        return {**told, "bundle": str(bundle)}
    try:
        found = Store(results, runs[-1]).status_or_begun(now_ns)
    except LabError:  # sealed in this very moment: its work folder is gone
        return {"pair": pair, "state": "finishing", "done": 0, "total": None, "verdict_counts": {}, **_QUIET}
    return {"pair": pair, **{key: found.get(key) for key in _KEPT}, "bundle": None}


_KEPT: Final = ("run_id", "state", "done", "total", "verdict_counts", "current", "eta_s", "error")
_QUIET: Final[Json] = {"run_id": None, "current": None, "eta_s": None, "error": None, "bundle": None}


def campaign_status(folder: PairsFolder, pairs: Iterable[Json], more: Json) -> Json:
    """All of them as one: sums of cells, and the longest time left; `eta_s` is None where a pair at work
    cannot tell its own."""
    rows = list(pairs)
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(counts_of(row, "verdict_counts"))
    left = [number_or_none(row, "eta_s") for row in rows if row["state"] in _AT_WORK]
    totals = [number_or_none(row, "total") for row in rows]
    return {
        "campaign": folder.document["campaign"],
        "scenario": folder.document["scenario"],
        "folder": folder.root.name,
        "done": sum(whole_of(row, "done") for row in rows),
        "total": None if None in totals else sum(total for total in totals if total is not None),
        "verdict_counts": dict(sorted(counts.items())),
        "current": None,
        "eta_s": None if None in left else max((s for s in left if s is not None), default=None),
        "merged": folder.document.get("merged"),
        "pairs": rows,
        **more,
    }


def write_status(folder: PairsFolder, document: Json) -> None:
    """For whoever watches; a reader sees the old document or the new."""
    write_json(folder.root / STATUS, document)


def sentence(row: Json) -> str:
    """`pair_1: running, 12 of 72 cells (12 pass), about 04:10 left; now cs-… rekey rep 2`."""
    told = f"{row['pair']}: {row['state']}"
    if row["total"] is not None:
        told += f", {row['done']} of {row['total']} cells"
    if counts := ", ".join(
        f"{count} {verdict}" for verdict, count in sorted(counts_of(row, "verdict_counts").items())
    ):
        told += f" ({counts})"
    if row["eta_s"] is not None:
        told += f", about {clock_text(number_of(row, 'eta_s'))} left"
    if cell := part_of(row, "current", {}):
        told += f"; now {cell['suite_id']} {cell['condition']} rep {cell['repetition']}"
    if row["error"]:
        told += f"; {part_of(row, 'error')['what']}"
    return told
