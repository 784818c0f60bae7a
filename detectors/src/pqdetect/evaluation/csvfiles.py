"""An evaluation as CSV files beside its JSON."""

from __future__ import annotations

import csv
from pathlib import Path

from pqdetect.evaluation.results import Results
from pqdetect.evaluation.tables import order

Row = list[str]


def write_csv(results: Results, folder: Path) -> None:
    """methods.csv, groups.csv, curve.csv, delay.csv."""
    methods: list[Row] = []
    groups: list[Row] = []
    curves: list[Row] = []
    delays: list[Row] = []
    for set_name, part in results["sets"].items():
        for name in order(part["methods"]):
            one = part["methods"][name]
            equal, false, degraded = one["equal_alarms"], one["false_alarms_per_h"], one["degraded"]
            values = [
                one["window_auroc"],
                one["window_auroc_degraded"],
                *(
                    one[key][bound] if one[key]["value"] is not None else None
                    for key in ("recall_visible", "recall_loss_30pct", "recall_held_out")
                    for bound in ("value", "low", "high")
                ),
                *(false.get(bound) for bound in ("value", "low", "high")),
                one["alarm_time_share"],
                *(one["delay_loss_30pct_s"][q] for q in ("p50", "p90", "p95")),
                equal["recall_visible"]["value"],
                equal["recall_loss_30pct"]["value"],
                degraded["recall"]["value"],
                degraded["precision"]["value"],
            ]
            methods.append([set_name, name, *map(_cell, values)])
            for key in ("by_kind", "by_rate_pps", "by_profile"):
                for group, figures in one[key].items():
                    share = figures["recall"]
                    row = [figures["held_out"], share["n"], share["value"], figures["median_delay_s"]]
                    groups.append([set_name, name, key, group, *map(_cell, row)])
            for point in one["curve"]:
                curves.append([set_name, name, *map(_cell, point.values())])
            delays += [[set_name, name, _cell(s), _cell(share)] for s, share in one["delay_cdf"]]
    bounds = [
        f"{key}{end}"
        for key in ("recall_visible", "recall_loss_30pct", "recall_held_out")
        for end in ("", "_low", "_high")
    ]
    _write(
        folder / "methods.csv",
        [
            "set",
            "detector",
            "window_auroc",
            "window_auroc_degraded",
            *bounds,
            "false_alarms_per_h",
            "false_alarms_per_h_low",
            "false_alarms_per_h_high",
            "alarm_time_share",
            "delay_loss_30pct_p50_s",
            "delay_loss_30pct_p90_s",
            "delay_loss_30pct_p95_s",
            "equal_recall_visible",
            "equal_recall_loss_30pct",
            "degraded_recall",
            "degraded_precision",
        ],
        methods,
    )
    head = ["set", "detector", "by", "group", "held_out", "episodes_count", "recall", "median_delay_s"]
    _write(folder / "groups.csv", head, groups)
    head = [
        "set",
        "detector",
        "level",
        "false_alarms_per_h",
        "recall_visible",
        "recall_loss_30pct",
        "median_delay_s",
    ]
    _write(folder / "curve.csv", head, curves)
    _write(folder / "delay.csv", ["set", "detector", "delay_s", "share_found"], delays)


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def _write(path: Path, head: Row, rows: list[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)
