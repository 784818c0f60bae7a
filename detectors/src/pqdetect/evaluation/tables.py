"""Tables of an evaluation: the Markdown blocks of docs/DETECTORS.md."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Literal

from pqbase.documents import number_of, number_or_none, part_of, whole_of
from pqdetect.evaluation.degraded import nearest
from pqdetect.evaluation.results import Delay, Method, Part, Rate, Results, Share, Target

Row = list[str]
BEGIN, END = "<!-- begin table: {} -->", "<!-- end table: {} -->"
SHOWN: Final = (
    "threshold", "ewma", "cusum", "any-auth-fail", "random",
    "xgboost-5w", "xgboost", "tst-p8", "tst", "cascade",
)  # fmt: skip


def order(methods: Collection[str]) -> list[str]:
    """Methods as tables list them."""
    return [name for name in SHOWN if name in methods]


# ---------------------------------------------------------------------- targets


def targets(results: Results, which: str = "test") -> list[Target]:
    """The detector row of the project's targets, for the default detector on one set of recordings."""
    name = results["winner"]["default"]
    one = results["sets"][which]["methods"][name]
    found, false = one["recall_loss_30pct"], one["false_alarms_per_h"]
    delay, degraded = one["delay_loss_30pct_s"]["p50"], one["degraded"]
    rows: list[tuple[str, str, float | None, bool | None]] = [
        (
            "ATTACK: visible episodes with ≥ 30 % loss found",
            "≥ 0.95",
            found["value"],
            _holds(found["value"], 0.95),
        ),
        ("false alarms an attack-free hour", "≤ 0.5", false["value"], _below(false["value"], 0.5)),
        ("their upper Poisson bound (95 %)", "≤ 0.6", false.get("high"), _below(false.get("high"), 0.6)),
        ("attack-free hours", "≥ 200", false["hours"], _holds(false["hours"], 200.0)),
        ("median delay, episodes with ≥ 30 % loss, s", "≤ 2", delay, delay is not None and delay <= 2.0),
        ("DEGRADED recall", "≥ 0.99", degraded["recall"]["value"], _holds(degraded["recall"]["value"], 0.99)),
        (
            "DEGRADED precision",
            "≥ 0.95",
            degraded["precision"]["value"],
            _holds(degraded["precision"]["value"], 0.95),
        ),
    ]
    counts = (
        found["n"],
        None,
        None,
        None,
        one["delay_loss_30pct_s"]["n"],
        degraded["recall"]["n"],
        degraded["precision"]["n"],
    )
    return [
        {"what": w, "target": t, "value": v, "met": m, "model": name, "n": n}
        for (w, t, v, m), n in zip(rows, counts, strict=True)
    ]


def _holds(value: float | None, floor: float) -> bool | None:
    return None if value is None else value >= floor


def _below(value: float | None, ceiling: float) -> bool | None:
    return None if value is None else value <= ceiling


# ---------------------------------------------------------------------- text of single figures


def number(value: float | None, digits: int = 2) -> str:
    """A figure, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def percent(share: Share, bounds: bool = True) -> str:
    """A proportion in percent with its interval."""
    if share["value"] is None:
        return "–"
    text = f"{share['value'] * 100:.1f} %"
    return f"{text} ({share['low'] * 100:.1f}–{share['high'] * 100:.1f})" if bounds else text


def _hundredths(share: float | None) -> str:
    return number(None if share is None else share * 100, 1)


def hourly(rate: Rate) -> str:
    """A rate with its bounds."""
    return "–" if rate["value"] is None else f"{rate['value']:.2f} ({rate['low']:.2f}–{rate['high']:.2f})"


def seconds(value: float | None) -> str:
    """A delay; a quantile among the missed ones is infinite."""
    return "∞" if value is None else f"{value:.1f}"


# ---------------------------------------------------------------------- Markdown


def blocks(results: Results) -> dict[str, str]:
    """Markdown by block name; what the lab showed is in `live_tables`."""
    made: dict[str, Callable[[Results], str]] = {
        "targets": _targets,
        "models": _models,
        "attack": lambda r: attack_table(r["sets"]["test"]),
        "winner": _winner,
        "equal": _equal,
        "kinds": lambda r: _groups(r["sets"]["test"], "by_kind", "kind"),
        "profiles": lambda r: _groups(r["sets"]["test"], "by_profile", "link profile"),
        "degraded": lambda r: f"{degraded_table(r['sets']['test'])}\n\n{_nearest(r)}",
        "seeds": _seeds,
        "copies": _copies,
    }
    return {name: make(results) for name, make in made.items()}


def insert(document: str, made: dict[str, str]) -> str:
    """The document with its marked blocks replaced; raises ValueError for a block it has no marks for."""
    for name, text in made.items():
        begin, end = BEGIN.format(name), END.format(name)
        if begin not in document or end not in document:
            raise ValueError(f"the document has no place for table {name!r}: put {begin} and {end} into it")
        head, rest = document.split(begin, 1)
        document = f"{head}{begin}\n{text.rstrip()}\n{end}{rest.split(end, 1)[1]}"
    return document


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _targets(results: Results) -> str:
    marks = {True: "met", False: "**missed**", None: "not measured"}
    live = {one["what"]: one for one in results.get("targets_live") or []}
    rows = []
    for one in results["targets"]:
        there = live.get(one["what"])
        n = "" if there is None or there["n"] is None else f" (n = {there['n']})"
        told = "–" if there is None or there["value"] is None else f"{_value(there)}{n}"
        rows.append([one["what"], one["target"], _value(one), marks[one["met"]], told])
    rows += _cost(results)
    return f"Detector `{results['winner']['default']}`:\n\n" + markdown(
        ["what", "target", "simulated test flights", "", "lab"], rows
    )


def _cost(results: Results) -> list[Row]:
    """CPU and memory of the default detector in campaigns of the lab: the most of any cell."""
    mine = [
        one
        for bundle in (results["lab"]["bundles"] if results.get("lab") else [])
        for one in bundle["conditions"]
        if one.get("model") == results["winner"]["default"]
    ]
    rows = []
    for figures, what, ceiling in (
        ([one["cpu_pct"] for one in mine], "CPU, most of any cell, % of a core", 2.0),
        ([one["rss_mb"] for one in mine], "memory, most of any cell, MB", 100.0),
    ):
        values = [figure["max"] for figure in figures if figure["value"] is not None]
        if values:
            cells = sum(figure["n"] for figure in figures)
            met = "met" if max(values) <= ceiling else "**missed**"
            rows.append([what, f"≤ {ceiling:g}", "–", "", f"{max(values):.3g} (n = {cells}), {met}"])
    return rows


def _value(one: Target) -> str:
    return "–" if one["value"] is None else f"{one['value']:g}"


def _models(results: Results) -> str:
    rows = []
    for name in order(results["cards"]):
        card = results["cards"][name]
        timing = None if card["inference"] is None else number_of(part_of(card, "inference"), "median_us")
        count, windows = number_or_none(card, "parameters_count"), whole_of(card, "history_windows")
        window_s = number_of(card, "window_s")
        rows.append(
            [
                f"`{name}`",
                str(card["kind"]),
                "–" if count is None else f"{count:,}",
                f"{whole_of(card, 'size_bytes', 0) / 1000:,.0f}",
                f"{windows} ({windows * window_s:.1f} s)",
                f"{number_of(card, 'time_to_first_verdict_s'):.1f}",
                "–" if timing is None else f"{timing:,.0f}",
                "–" if timing is None else f"{timing / (window_s * 1e6) * 100:.3f} %",
            ]
        )
    head = [
        "model",
        "kind",
        "parameters",
        "size, kB",
        "window",
        "first verdict, s",
        "step, median µs",
        "of one core",
    ]
    return markdown(head, rows)


def _by_method(part: Part, columns: Mapping[str, Callable[[Method], str]]) -> str:
    """A row a detector; columns: what each shows of it, by its head."""
    methods = part["methods"]
    rows = [[f"`{name}`", *(shown(methods[name]) for shown in columns.values())] for name in order(methods)]
    return markdown(["detector", *columns], rows)


def attack_table(part: Part) -> str:
    """ATTACK by detector, at the rules of the cards."""
    note = (
        f"{part['recordings_count']} recordings, {part['attack_free_hours']:.3g} attack-free hours, "
        f"{part['episodes_visible']} visible episodes, {part['episodes_loss_30pct']} of them with "
        "≥ 30 % loss.\n\n"
    )
    return note + _by_method(
        part,
        {
            "window AUROC": lambda one: number(one["window_auroc"], 3),
            "visible episodes found": lambda one: percent(one["recall_visible"]),
            "… with ≥ 30 % loss": lambda one: percent(one["recall_loss_30pct"]),
            "… held out": lambda one: percent(one["recall_held_out"]),
            "false alarms/h": lambda one: hourly(one["false_alarms_per_h"]),
            "delay ≥ 30 % loss, p50 / p90 s": lambda one: _quantiles(one["delay_loss_30pct_s"]),
            "free time in alarm": lambda one: f"{one['alarm_time_share'] * 100:.2f} %",
        },
    )


def _quantiles(delay: Delay) -> str:
    """Median and 90th percentile; of no episode there is none."""
    return f"{seconds(delay['p50'])} / {seconds(delay['p90'])}" if delay["n"] else "–"


def _winner(results: Results) -> str:
    """Which of the four wins at equal false alarms, by how many standard errors, and which is the default."""
    won, methods = results["winner"], results["sets"]["test"]["methods"]
    best = methods[won["best"]]["equal_alarms"]["recall_visible"]
    lines = [
        f"At equal false alarms `{won['best']}` finds most: {percent(best)} of the visible episodes. Ahead of"
    ]
    for name, gap in sorted(won["against"].items(), key=lambda pair: pair[1]["difference"] or 0.0):
        if name in ("random", "any-auth-fail") or gap["difference"] is None:
            continue
        close = " (not distinguishable)" if name in won["not_distinguishable"] else ""
        points = gap["difference"] * 100
        lines.append(f"- `{name}` by {points:.1f} points, {number(gap['in_se'], 1)} SE{close}")
    told = "it" if won["default"] == won["best"] else f"`{won['default']}`, cheaper and within 2 SE,"
    return "\n".join(lines) + f"\n\nSo {told} is the default, and what detector `xgboost` of the lab runs."


def _equal(results: Results) -> str:
    part, won = results["sets"]["test"], results["winner"]
    rows = []
    for name in order(part["methods"]):
        one = part["methods"][name]["equal_alarms"]
        against = won["against"].get(name)
        gap = "best" if name == won["best"] else "–"
        if against is not None and against["difference"] is not None:
            gap = f"{against['difference'] * 100:+.1f} points, {number(against['in_se'], 1)} SE"
        rows.append(
            [
                f"`{name}`",
                percent(one["recall_visible"]),
                percent(one["recall_loss_30pct"]),
                number(one["false_alarms_per_h"]["value"]),
                seconds(one["delay_s"]["p50"]),
                gap,
            ]
        )
    head = [
        "detector",
        "visible found",
        "… ≥ 30 % loss",
        "false alarms/h",
        "median delay, s",
        "best minus this",
    ]
    return markdown(head, rows)


def _groups(part: Part, key: Literal["by_kind", "by_profile"], title: str) -> str:
    names = order(part["methods"])
    shown = [name for name in names if name not in ("random", "any-auth-fail")]
    groups = part["methods"][names[0]][key]
    rows = []
    for group, first in groups.items():
        cells = [percent(part["methods"][name][key][group]["recall"], bounds=False) for name in shown]
        rows.append(
            [f"{group}{' (held out)' if first['held_out'] else ''}", str(first["recall"]["n"]), *cells]
        )
    return markdown([title, "episodes", *(f"`{name}`" for name in shown)], rows)


def degraded_table(part: Part) -> str:
    """DEGRADED by detector."""
    return _by_method(
        part,
        {
            "window AUROC": lambda one: number(one["window_auroc_degraded"], 3),
            "stretches found": lambda one: percent(one["degraded"]["recall"]),
            "… ≥ 3 s long": lambda one: percent(one["degraded"]["recall_long"]),
            "alarms right": lambda one: percent(one["degraded"]["precision"]),
            "windows found": lambda one: percent(one["degraded"]["window_recall"], bounds=False),
            "windows right": lambda one: percent(one["degraded"]["window_precision"], bounds=False),
        },
    )


def _nearest(results: Results) -> str:
    """How close to both targets of DEGRADED any level comes."""
    curves = results.get("degraded_curve")
    if not curves:
        return "The trade over levels was not computed."
    found = [(name, nearest(curves[name])) for name in order(curves)]
    told = "; ".join(
        f"`{name}`: {_hundredths(point['recall'])} % of the stretches found "
        f"({_hundredths(point['recall_long'])} % of those of 3 s and more) with "
        f"{_hundredths(point['precision'])} % of the alarms right"
        for name, point in found
        if point is not None
    )
    return f"Over all levels of the alarm, nearest to both targets (99 % and 95 %) come: {told}."


def _seeds(results: Results) -> str:
    seeds = results["seeds"]
    if "models" not in seeds:
        return f"Not measured: {seeds['reason']}."
    rows = []
    for name in order(seeds["models"]):
        one = seeds["models"][name]
        ahead = seeds["best_ahead_in_se"].get(name)
        spread = "–" if one["se"] is None else f"{one['se'] * 100:.2f}"
        gap = "best" if name == seeds["best"] else ("–" if ahead is None else f"{ahead:.1f} SE")
        rows.append([f"`{name}`", str(one["n"]), f"{_hundredths(one['mean'])} %", spread, gap])
    note = f"{seeds['hours']:.0f} h with episodes of {', '.join(seeds['kinds'])}.\n\n"
    head = ["model", "seeds", "visible found at equal false alarms", "SE, points", "best ahead by"]
    return note + markdown(head, rows)


def _copies(results: Results) -> str:
    told = results.get("copies", [])
    if not told:
        return "Not measured: these results are older than the table."
    names = order(told[0]["false_alarms_per_h"])
    rows = []
    for row in told:
        share = "as they are" if row["share_pct"] is None else f"{row['share_pct']:g} %"
        rows.append([share, *(hourly(row["false_alarms_per_h"][name]) for name in names)])
    hours = told[0]["false_alarms_per_h"][names[0]]["hours"]
    note = f"False alarms an hour, of {told[0]['flights']} flights of {hours:.1f} attack-free hours.\n\n"
    return note + markdown(["packets that come twice", *(f"`{name}`" for name in names)], rows)
