"""Detectors that saw nothing, said what they could not know, slept badly, or were others than named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from bad_bundles.forge import (
    Json,
    Registry,
    cells,
    edit,
    edit_field,
    finish,
    load_lines,
    registering,
    rename_cells,
    save_lines,
)
from detector_files import WINDOW_NS, facts, gate_of, write_usage, write_watched
from scored_files import name_model, refuse, rescore

BAD: Registry = {}


def _watched(
    root: Path, spoil: Callable[[Path], None] | None, *, model: Callable[[Json], None] | None = None
) -> None:
    """Every cell of the bundle was watched by xgboost, all well but what `spoil` does to each cell."""
    data = root / "data"
    edit(data / "scenario.effective.yml", lambda s: s["conditions"][0].update(detector="xgboost"))
    named = facts("xgboost")
    if model is not None:
        model(named)
    edit(data / "providers.json", lambda p: p.update(detectors={"xgboost": named}))
    rename_cells(root)
    for cell in cells(root):
        write_watched(cell, "xgboost")
        write_usage(cell, ("xgboost",), "xgboost")
        _count(cell)
        if spoil is not None:
            spoil(cell)
    finish(root)


def scored(root: Path, spoil: Callable[[Path], None] | None) -> None:
    """The same by a shipped model: its digest, its card, and every score by it."""

    def by_it(cell: Path) -> None:
        refuse(cell)
        rescore(cell)
        if spoil is not None:
            spoil(cell)

    _watched(root, by_it, model=name_model)


def _count(cell: Path) -> None:
    """The record's counts, as the lines give them."""
    open_ns, close_ns = gate_of(cell)
    due = range(-(-open_ns // WINDOW_NS), close_ns // WINDOW_NS)
    edit_field(cell, "S", "detector_windows_due_count", value=len(due), validity="ok", reason=None)
    edit_field(cell, "S", "detector_verdict_count", value=len(due), validity="ok", reason=None)
    edit_field(cell, "S", "detector_deadline_missed_count", value=0, validity="ok", reason=None)


def _lines(cell: Path, change: Callable[[list[Json]], object]) -> None:
    rows = load_lines(cell / "detector.ndjson")
    change(rows)
    save_lines(cell / "detector.ndjson", rows)


@registering(BAD, "detector_verdicts")
def verdict_before_its_window_ended(root: Path) -> None:
    """A verdict is stamped inside the window it judges; its latency says otherwise."""
    _watched(root, lambda cell: _lines(cell, lambda rows: rows[1].update(t_ns=rows[1]["k"] * WINDOW_NS + 5)))


@registering(BAD, "detector_verdicts")
def late_and_called_in_time(root: Path) -> None:
    """A verdict 900 ms after its window; its deadline counts as met."""

    def late(rows: list[Json]) -> None:
        rows[1].update(t_ns=(rows[1]["k"] + 1) * WINDOW_NS + 900_000_000, latency_ms=900.0)

    _watched(root, lambda cell: _lines(cell, late))


@registering(BAD, "detector_verdicts")
def normal_while_blind(root: Path) -> None:
    """The counters stood still, the state says so, and the verdict is `no attack` all the same."""
    _watched(root, lambda cell: _lines(cell, lambda rows: rows[1].update(state="stale", deadline_met=False)))


@registering(BAD, "detector_verdicts")
def window_left_out(root: Path) -> None:
    """One window is missing from the lines, and no gap is told."""

    def drop(cell: Path) -> None:
        _lines(cell, lambda rows: rows.pop(1))

    _watched(root, drop)


@registering(BAD, "detector_verdicts")
def packets_it_never_saw(root: Path) -> None:
    """It claims more packets than the endpoint's bins hold."""
    _watched(
        root,
        lambda cell: _lines(cell, lambda rows: rows[0].update(packets_seen=rows[0]["packets_seen"] + 50)),
    )


@registering(BAD, "detector_verdicts")
def more_verdicts_than_lines(root: Path) -> None:
    """The record counts a verdict that no line holds."""

    def more(cell: Path) -> None:
        edit(
            cell / "record.json",
            lambda record: record["categories"]["S"]["detector_verdict_count"].update(value=99),
        )

    _watched(root, more)


@registering(BAD, "detector_rescored")
def score_of_no_model(root: Path) -> None:
    """The detector was surer of a bad link than its model is of those counts; verdicts are as they were."""
    scored(root, lambda cell: _lines(cell, lambda rows: rows[0].update(degraded_score=0.2)))


@registering(BAD, "detector_ready")
def canary_not_raised(root: Path) -> None:
    """The canary attack took place, no verdict told it, and the cell counts as a result."""

    def silent(rows: list[Json]) -> None:
        for row in rows:
            row.update(attack=False, attack_score=0.02)

    _watched(root, lambda cell: _lines(cell, silent))


@registering(BAD, "detector_ready")
def no_canary_at_all(root: Path) -> None:
    """Nothing shows that a known attack was ever tried."""
    _watched(root, lambda cell: (cell / "canary" / "attack.ndjson").unlink())


@registering(BAD, "detector_frozen")
def awake_in_the_baseline(root: Path) -> None:
    """A detector used CPU in cells that are sold as free of any."""
    edit(root / "data" / "providers.json", lambda p: p.update(detectors={"tst": facts("tst")}))
    for cell in cells(root):
        write_usage(cell, ("tst",), "none", asleep_ns=40_000_000)
    finish(root)


@registering(BAD, "detector_frozen")
def more_cpu_than_time(root: Path) -> None:
    """One thread used more CPU time than passed."""
    _watched(root, lambda cell: write_usage(cell, ("xgboost",), "xgboost", share=1.4))


@registering(BAD, "detector_frozen")
def readings_inside_the_window(root: Path) -> None:
    """The last reading of its CPU came 5 ms before it would have framed the measured window."""

    def early(cell: Path) -> None:
        path = cell / "detectors.json"
        usage = json.loads(path.read_text())
        open_ns, close_ns = gate_of(cell)
        window_ns = close_ns - open_ns
        usage["after"]["xgboost"]["t_ns"] = usage["before"]["xgboost"]["t_ns"] + window_ns - 5_000_000
        path.write_text(json.dumps(usage))

    _watched(root, early)


@registering(BAD, "detector_model")
def another_model_than_named(root: Path) -> None:
    """The verdicts are of a model whose hash is not that of the card."""

    def other(named: Json) -> None:
        named["sha256"] = named["card"]["sha256"] = "00" * 32

    _watched(root, None, model=other)


@registering(BAD, "detector_model")
def detector_without_an_image(root: Path) -> None:
    """No digest says in what image the detector ran."""
    _watched(root, None, model=lambda named: named.update(image_id=None))


@registering(BAD, "detector_scores")
def quiet_at_the_highest_score(root: Path) -> None:
    """The detector was sure of an attack in the session and raised none."""
    rule = {"on": 0.5, "off": 0.3, "need": 1, "among": 1, "hold": 2}

    def ruled(named: Json) -> None:
        named["card"]["rules"] = {"attack": rule, "degraded": rule}

    _watched(root, lambda cell: _lines(cell, lambda rows: rows[0].update(attack_score=0.99)), model=ruled)
