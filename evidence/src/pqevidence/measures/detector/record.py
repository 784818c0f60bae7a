"""Category S: what a detector said of the traffic window, when, at what cost, and whether it could see.

A window of 0.6 s counts when it lies wholly inside the traffic window. The canary window is proof of sight
and enters nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from pqbase.stats import tail
from pqdetect.service.verdict import WINDOW_NS, window_end_ns
from pqevidence.record.dataplane import TRAFFIC, DataPlane
from pqevidence.record.facts import Facts
from pqevidence.record.raw import Json, RawCell
from pqevidence.record.sheet import Sheet
from pqevidence.record.stats import few, median
from pqevidence.scenario.conditions import NO_DETECTOR as NONE
from pqevidence.scenario.conditions import detector_of

NO_DETECTOR = "no detector in this condition"
NOT_RAISED = "the canary was not raised"
HIDDEN = "an alarm stood before the canary began"
#: an alarm may go on, or come, this long after its cause ended
AFTERMATH_NS = 5 * WINDOW_NS
#: share of the due windows that may be without a verdict
MISSING_SHARE = 0.1
#: an attack that a detector at this end can see
_VICTIM = "drone"


@dataclass(frozen=True)
class Told:
    """A detector's lines of the traffic window. due: window numbers; verdicts: ready lines of those, by k."""

    due: range
    verdicts: dict[int, Json]
    lines: list[Json]
    open_ns: int

    @property
    def ordered(self) -> list[Json]:
        """The verdicts by window."""
        return [self.verdicts[k] for k in sorted(self.verdicts)]


@dataclass
class Alarms:
    """Against ground truth: alarms that began without a cause, and attacks told with their delay."""

    false: int = 0
    episodes: int = 0
    delays_s: list[float] = field(default_factory=list)


def due_windows(gate_ns: tuple[int, int]) -> range:
    """Numbers of the windows that lie wholly within [open, close]."""
    first = -(-gate_ns[0] // WINDOW_NS)
    return range(first, max(first, gate_ns[1] // WINDOW_NS))


def told_of(cell: RawCell, plane: DataPlane) -> Told | None:
    """The lines about the traffic window; None without that window or without lines."""
    gate = plane.gate_ns.get(TRAFFIC)
    if gate is None or cell.detector is None:
        return None
    due = due_windows(gate)
    ready = {int(line["k"]): line for line in cell.detector if line["state"] == "ready"}
    return Told(due, {k: line for k, line in ready.items() if k in due}, cell.detector, gate[0])


def episodes_of(truth: Iterable[Json] | None) -> list[tuple[int, int]]:
    """(begin, end) in realtime ns of each visible attack: at least one datagram of it came to this end."""
    return [
        (int(row["t_on_ns"]), int(row["t_off_ns"]))
        for row in truth or []
        if "t_on_ns" in row
        and not row.get("benign")
        and row.get("target", _VICTIM) == _VICTIM
        and int(row.get("sent_count") or 0) > 0
    ]


def _ready(lines: Iterable[Json] | None) -> list[Json]:
    """The verdicts among the lines, by window."""
    return sorted((line for line in lines or [] if line["state"] == "ready"), key=lambda line: int(line["k"]))


class _Causes:
    """Attacks by their begin, so that files of many attacks and many lines are not held each against each."""

    def __init__(self, episodes: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(episodes)
        self._on = [on for on, _ in ordered]
        self._until = list(accumulate((off for _, off in ordered), max))

    def has(self, k: int) -> bool:
        """Does this window touch an attack or its aftermath?"""
        begun = bisect_left(self._on, window_end_ns(k))
        return begun > 0 and k * WINDOW_NS < self._until[begun - 1] + AFTERMATH_NS


def true_alarms(verdicts: Iterable[Json], episodes: list[tuple[int, int]]) -> list[tuple[Json, int]]:
    """Every ATTACK of an alarm that has a cause, with the window in which that alarm began. One that began
    outside every attack stands for nothing, however long it stands and whatever comes meanwhile."""
    found: list[tuple[Json, int]] = []
    began: int | None = None
    causes = _Causes(episodes)
    for line in verdicts:
        if not line["attack"]:
            began = None
            continue
        began = int(line["k"]) if began is None else began
        if causes.has(began):
            found.append((line, began))
    return found


def _first(windows: list[int], begin_ns: int, end_ns: int) -> int | None:
    """Place of the first of these windows (in order) that touches [begin, end + one window]."""
    place = bisect_left(windows, begin_ns // WINDOW_NS)
    return place if place < len(windows) and windows[place] * WINDOW_NS < end_ns + WINDOW_NS else None


def alarms_of(told: Told, episodes: list[tuple[int, int]]) -> Alarms:
    """The verdicts of the traffic window against the attacks in it."""
    found = Alarms()
    causes, verdicts = _Causes(episodes), told.ordered
    for before, line in pairwise([None, *verdicts]):
        if line is None or not line["attack"] or (before is not None and before["attack"]):
            continue
        found.false += not causes.has(int(line["k"]))
    standing = [line for line, _ in true_alarms(_ready(told.lines), episodes) if int(line["k"]) in told.due]
    windows = [int(line["k"]) for line in standing]
    last_ns = window_end_ns(told.due[-1]) if told.due else told.open_ns
    for on, off in episodes:
        if on >= last_ns or off <= told.open_ns:
            continue
        found.episodes += 1
        place = _first(windows, on, off)
        if place is not None:
            found.delays_s.append((int(standing[place]["t_ns"]) - on) / 1e9)
    return found


def canary_alarm(cell: RawCell) -> tuple[Json, float | None] | None:
    """(line, seconds from the canary's begin to it); None where it was not raised or there was none. No
    seconds where the alarm that stood is that of the cell's own attack."""
    alarms = true_alarms(_ready(cell.detector), [*episodes_of(cell.attack), *_canaries(cell)])
    windows = [int(line["k"]) for line, _ in alarms]
    for on, off in _canaries(cell):
        place = _first(windows, on, off)
        if place is not None:
            line, began = alarms[place]
            own = window_end_ns(began) > on
            return line, (int(line["t_ns"]) - on) / 1e9 if own else None
    return None


def canary_hidden(cell: RawCell) -> bool:
    """Not told, because an alarm without a cause stood before the canary began and went on."""
    windows = [int(line["k"]) for line in _ready(cell.detector) if line["attack"]]
    stood = any(_first(windows, on, off) is not None for on, off in _canaries(cell))
    return stood and canary_alarm(cell) is None


def _canaries(cell: RawCell) -> list[tuple[int, int]]:
    return episodes_of(cell.canary.truth if cell.canary else None)


def failures(facts: Facts) -> list[str]:
    """Why a cell with a detector is no result at all: a detector that said nothing, or cannot see."""
    cell, condition, plane = facts.cell, facts.condition, facts.plane
    if detector_of(condition) == NONE:
        return []
    told = told_of(cell, plane)
    if told is None or not told.verdicts:
        states = sorted({str(line["state"]) for line in cell.detector or []})
        return [f"no verdict on the traffic window (states told: {', '.join(states) or 'none'})"]
    found = []
    if not sum(int(line["packets_seen"]) for line in told.ordered):
        found.append("it judged windows in which it saw no packet")
    if _canaries(cell) and canary_alarm(cell) is None and not canary_hidden(cell):
        found.append(NOT_RAISED)
    return found


def problems(facts: Facts) -> list[str]:
    """Why the measurement does not count: windows without a verdict, another history than the condition says,
    or a detector at work that should have been frozen."""
    cell, condition = facts.cell, facts.condition
    found = []
    wanted = detector_of(condition)
    others = _cpu_ns(cell.usage, skip=wanted)
    found += [
        f"detector {name} used {ns / 1e6:.3f} ms of CPU while frozen" for name, ns in others.items() if ns
    ]
    if wanted != NONE and not _canaries(cell):
        found.append("no canary attack took place, so nothing shows that the detector could see")
    if wanted != NONE and canary_hidden(cell):
        found.append(f"{HIDDEN}, so nothing shows that the detector could see")
    told = None if wanted == NONE else told_of(cell, facts.plane)
    if told is not None and told.verdicts:
        missing = len(told.due) - len(told.verdicts)
        if missing > max(1, MISSING_SHARE * len(told.due)):
            found.append(f"{missing} of {len(told.due)} windows without a verdict")
        signed = {str(line["detector"]) for line in told.verdicts.values()}
        if signed != {wanted}:
            found.append(f"verdicts are signed {', '.join(sorted(signed))}, the condition names {wanted}")
        if condition.get("detector_history") != "warm" and not _began_cold(told):
            found.append("its history reaches back before the cell, the condition says cold")
    return found


def _began_cold(told: Told) -> bool:
    """No verdict rests on more windows than there are lines of this cell up to it."""
    first, last = told.ordered[0], told.ordered[-1]
    own = [line for line in told.lines if line["cell_id"] == last["cell_id"]]
    seen = sum(1 for line in own if int(line["k"]) <= int(first["k"]))
    return int(first["history_windows"]) <= seen


def _cpu_ns(usage: Json | None, *, skip: str = "") -> dict[str, int]:
    """CPU time between the two readings, of every detector but `skip` that was read twice."""
    if usage is None:
        return {}
    found = {}
    for name, after in usage["after"].items():
        before = usage["before"].get(name) or {}
        if name != skip and after.get("cpu_ns") is not None and before.get("cpu_ns") is not None:
            found[name] = int(after["cpu_ns"]) - int(before["cpu_ns"])
    return found


def fill(sheet: Sheet, facts: Facts) -> None:
    """Category S."""
    cell, condition = facts.cell, facts.condition
    wanted = detector_of(condition)
    sheet.put("S", "detector_name", wanted)
    _fill_cost(sheet, cell, wanted)
    if wanted == NONE:
        sheet.null_rest("S", NO_DETECTOR)
        return
    sheet.put("S", "detector_history", str(condition.get("detector_history", "cold")))
    raised = canary_alarm(cell)
    sheet.put("S", "detector_ready", not failures(facts) and raised is not None)
    sheet.put("S", "detector_canary_raised", raised is not None)
    why = HIDDEN if canary_hidden(cell) else NOT_RAISED
    if raised is not None:
        why = "the alarm of the cell's own attack stood when the canary began"
    sheet.put("S", "detector_canary_delay_s", raised[1] if raised else None, absent=why)
    told = told_of(cell, facts.plane)
    if told is None:
        sheet.null_rest("S", "no verdict line of this cell, or no traffic window")
        return
    _fill_verdicts(sheet, told)
    alarms = alarms_of(told, episodes_of(cell.attack))
    sheet.put("S", "detector_false_alarm_count", alarms.false, n=len(told.verdicts))
    sheet.put("S", "detector_episode_count", alarms.episodes)
    detected = len(alarms.delays_s)
    sheet.put("S", "detector_detected_count", detected, n=alarms.episodes)
    why = "none was detected" if alarms.episodes else "no visible attack in the traffic window"
    sheet.put("S", "detector_delay_s", median(alarms.delays_s), n=detected, absent=why)


def _fill_verdicts(sheet: Sheet, told: Told) -> None:
    verdicts = told.ordered
    none = "no verdict on the traffic window"
    first: Json = verdicts[0] if verdicts else {}
    sheet.put("S", "detector_model", first.get("model"), absent=none)
    sheet.put("S", "detector_model_sha256", first.get("sha256"), absent=none)
    sheet.put("S", "detector_history_windows_count", first.get("history_windows"), absent=none)
    sheet.put("S", "detector_packets_seen_count", sum(int(line["packets_seen"]) for line in verdicts))
    sheet.put("S", "detector_windows_due_count", len(told.due))
    sheet.put("S", "detector_verdict_count", len(verdicts))
    sheet.put("S", "detector_missing_count", len(told.due) - len(verdicts))
    sheet.put("S", "detector_deadline_missed_count", sum(1 for line in verdicts if not line["deadline_met"]))
    late = [float(line["latency_ms"]) for line in verdicts]
    for name, value, absent in (
        ("p50", median(late), none),
        ("p95", tail(late, 0.95), few(late, 0.95, none)),
        ("max", max(late, default=None), none),
    ):
        sheet.put("S", f"detector_latency_{name}_ms", value, n=len(late), absent=absent)
    waited_s = (int(first["t_ns"]) - told.open_ns) / 1e9 if verdicts else None
    sheet.put("S", "detector_first_verdict_s", waited_s, absent=none)
    sheet.put("S", "detector_alarm_count", sum(1 for line in verdicts if line["attack"]))
    sheet.put("S", "detector_degraded_count", sum(1 for line in verdicts if line["degraded"]))


def _fill_cost(sheet: Sheet, cell: RawCell, wanted: str) -> None:
    """From the control groups; in a cell without a detector what all of them used, which must be nothing."""
    no_group = "no control group of a detector was read in this cell"
    used = _cpu_ns(cell.usage)
    others = {name: ns for name, ns in used.items() if name != wanted}
    usage: Json = cell.usage or {"before": {}, "after": {}}
    percent = None
    if wanted == NONE and used:
        percent = sum(
            100 * ns / (int(usage["after"][name]["t_ns"]) - int(usage["before"][name]["t_ns"]))
            for name, ns in used.items()
        )
    elif wanted in used:
        took_ns = int(usage["after"][wanted]["t_ns"]) - int(usage["before"][wanted]["t_ns"])
        percent = 100 * used[wanted] / took_ns
    sheet.put("S", "detector_cpu_mean_pct", percent, absent=no_group)
    sizes = [
        int(side[wanted]["rss_bytes"])
        for side in (usage["before"], usage["after"])
        if wanted in side and side[wanted].get("rss_bytes") is not None
    ]
    absent = NO_DETECTOR if wanted == NONE else no_group
    sheet.put("S", "detector_rss_mb", max(sizes) / 1e6 if sizes else None, absent=absent)
    whole = None if not used else sum(others.values()) / 1e6
    sheet.put("S", "detector_others_cpu_ms", whole, n=len(others) or None, absent=no_group)
