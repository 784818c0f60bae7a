"""Markdown blocks of docs/DETECTORS-LIVE.md: recordings of the lab, attack by attack, and its campaigns."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Final

from pqdetect.evaluation.live import FAR_KS
from pqdetect.evaluation.results import Campaign, Results, Spread
from pqdetect.evaluation.tables import attack_table, degraded_table, hourly, markdown, number, percent

#: columns of tables that tell attack by attack; the rest is in results.json
BESIDE: Final = ("threshold", "cusum", "xgboost-5w", "xgboost", "tst-p8", "tst", "cascade")
NO_RECORDINGS: Final = "No recordings of the running lab were given to this evaluation."
NO_BUNDLES: Final = "No campaign with detectors was given to this evaluation."


def blocks(results: Results) -> dict[str, str]:
    """Markdown by block name."""
    return {"live": live(results), "simulator": simulator(results), "lab": lab(results)}


def live(results: Results) -> str:
    """Recordings of the lab: whole, attack by attack, theme by theme."""
    part = results["sets"].get("live")
    if part is None:
        return NO_RECORDINGS
    names = [name for name in BESIDE if name in part["methods"]]
    head = ["attack", "link", "rate, 1/s", "episodes", "loss, median", *(f"`{name}`" for name in names)]
    rows = [
        [
            row["kind"],
            row["profile"],
            f"{row['rate_pps']:g}",
            str(row["episodes"]),
            f"{median(row['loss']) * 100:.0f} %" if row["loss"] else "–",
            *(_found(row["delays_s"][name]) for name in names),
        ]
        for row in part["attacks"]
    ]
    calm = [
        [
            row["kind"],
            str(row["recordings"]),
            f"{row['minutes']:.1f}",
            *(str(row["false"][name]) for name in names),
        ]
        for row in part["quiet"]
    ]
    runs = Counter(row["scenario_id"].rpartition("/")[0] for row in part["recordings"])
    told = ", ".join(f"`{run}` {count}" for run, count in sorted(runs.items()))
    return "\n\n".join(
        [
            f"Recordings by run: {told}.",
            attack_table(part),
            "Attack by attack, at the rules of the cards (found of all; median delay; a missed one is ∞):",
            markdown(head, rows),
            "Recordings without a visible attack (alarms that began in them):",
            markdown(["what happened", "recordings", "minutes", *(f"`{name}`" for name in names)], calm),
            "DEGRADED:",
            degraded_table(part),
        ]
    )


def _found(delays_s: list[float | None]) -> str:
    found = [delay for delay in delays_s if delay is not None]
    middle = sorted(delays_s, key=lambda delay: (delay is None, delay))[(len(delays_s) - 1) // 2]
    return f"{len(found)} of {len(delays_s)}; {'∞' if middle is None else f'{middle:.1f} s'}"


def simulator(results: Results) -> str:
    """The features in which simulated twins are furthest from the lab."""
    part = results["sets"].get("live")
    if part is None or "simulator" not in part:
        return NO_RECORDINGS
    blocks = []
    for condition in dict.fromkeys(row["condition"] for row in part["simulator"]):
        known = [
            (row["ks"], row)
            for row in part["simulator"]
            if row["condition"] == condition and row["ks"] is not None
        ]
        if not known:
            blocks.append(f"**{condition}**: these recordings hold no whole window of it.")
            continue
        far = sorted((one for one in known if one[0] > FAR_KS), key=lambda one: -one[0])
        same = sum(ks <= 0.1 for ks, _ in known)
        rows = [
            [
                row["feature"],
                f"{ks:.2f}",
                *map(_g, (row["lab_median"], row["sim_median"], row["lab_p95"], row["sim_p95"])),
            ]
            for ks, row in far
        ]
        one = known[0][1]
        told = (
            f"**{condition}**: {one['lab_count']:,} windows of the lab, {one['sim_count']:,} of "
            f"twins. Of {len(known)} features {same} lie within 0.1 (Kolmogorov–Smirnov), {len(far)} beyond "
            f"{FAR_KS:g}"
        )
        head = ["feature", "distance", "median lab", "median simulator", "p95 lab", "p95 simulator"]
        blocks.append(f"{told}:\n\n{markdown(head, rows)}" if rows else f"{told}.")
    return "\n\n".join(blocks)


def _g(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def lab(results: Results) -> str:
    """Campaigns with detectors: cost, deadlines, alarms, by condition."""
    found = results.get("lab")
    if not found:
        return NO_BUNDLES
    return "\n\n".join(_campaign(bundle) for bundle in found["bundles"])


def _campaign(bundle: Campaign) -> str:
    rows = []
    for one in bundle["conditions"]:
        if "model" not in one:
            continue
        attack = one["attack"]
        false = one["false_alarms"]
        rows.append(
            [
                f"`{one['condition']}`",
                f"`{one['model']}`, {one['history']}",
                "–" if attack is None else f"{attack['kind']}, {attack['rate_pps']:g}/s",
                str(one["n"]),
                _spread(one["cpu_pct"], 2),
                number(one["cpu_pct"].get("max")),
                number(one["rss_mb"].get("max"), 1),
                f"{one['verdicts']} of {one['due']}, {one['late']} late",
                _spread(one["latency_max_ms"], 0),
                f"{false['count']}" if false["value"] is None else f"{false['count']}: {hourly(false)}",
                "–" if attack is None else f"{percent(one['found'])}, {_spread(one['delay_s'], 2)}",
                f"{percent(one['canaries'])}, {_spread(one['canary_delay_s'], 2)}",
            ]
        )
    bare = [one for one in bundle["conditions"] if "model" not in one]
    cpu = [one["others_cpu_ms_max"] for one in bare if one["others_cpu_ms_max"] is not None]
    cells = ", ".join(f"{count} {verdict}" for verdict, count in bundle["cells"].items())
    note = (
        f"Scenario `{bundle['scenario']}` (ring {bundle['ring']}): {cells}; load average "
        f"{bundle['loadavg'][0]:g} at its beginning, {bundle['loadavg'][1]:g} at its end."
    )
    if cpu:
        cells_count = sum(one["others_n"] for one in bare)
        note += f" In its {cells_count} cells without a detector all detectors together used at most "
        note += f"{max(cpu):.3f} ms of CPU."
    head = [
        "condition",
        "model, history",
        "attack",
        "cells",
        "CPU, % of a core",
        "most",
        "RSS, MB",
        "windows judged",
        "largest latency, ms",
        "false alarms: an hour",
        "found, delay s",
        "canary, delay s",
    ]
    return f"{note}\n\n{markdown(head, rows)}"


def _spread(figure: Spread, digits: int) -> str:
    if figure["value"] is None:
        return "–"
    ends = f"{figure['low']:.{digits}f}–{figure['high']:.{digits}f}"
    return f"{figure['value']:.{digits}f} ({ends})"
