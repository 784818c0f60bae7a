"""The sampler beside each end as a witness: ten times a second it read the tunnel's own counters and the
kernel's accounts. What spans, ledgers and counters claim must have been so at every tick."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from pqbase.documents import whole_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.kernel.witnesses import has_witnesses
from pqevidence.record.raw import ROLES, SHIFTED, Json
from pqevidence.record.untimed import untimed_reasons
from pqevidence.scenario.conditions import without

#: counters.json is written, read and stamped at three moments; on a busy machine some 10 ms apart
SLACK_NS = 100_000_000
#: percentages and their cumulative counters are of slightly different spans of time: share, points
SLACK = {
    "system_pct": (0.05, 2.0),
    "steal_pct": (0.05, 2.0),
    "process_pct": (0.03, 0.5),
    "container_pct": (0.05, 1.0),
    "sampler_pct": (0.05, 0.5),
}
#: share → the account that it is of: of all cores, or of one process or group
OF_ALL = {"system_pct": "system_busy_ms", "steal_pct": "system_steal_ms"}
OF_ONE = {
    "process_pct": "process_cpu_ns",
    "container_pct": "container_cpu_ns",
    "sampler_pct": "sampler_cpu_ns",
}
#: virtual time has no late tick; its system_busy_ms is of whole ms, a few of them in a short cell
SLACK_VIRTUAL = {"system_pct": (0.05, 0.2), "steal_pct": (0.05, 0.2), "process_pct": (0.05, 0.02)}
#: the machine is at least as busy as one process on it; kernels that count by the tick miss short bursts
SLACK_MACHINE, SLACK_MACHINE_VIRTUAL = (0.5, 5.0), (0.05, 0.02)
#: kernel time of all cores against wall × cores. It lacks little; it may be too much by far, because a kernel
#: counts a busy tick whole and idle time by the clock (1.33 × in a cell whose router woke at every tick)
CORES_LESS, CORES_MORE, CORES_SLACK_MS = 0.08, 0.5, 150.0
#: rises only
CUMULATIVE = ("system_busy_ms", "system_total_ms", "system_steal_ms", "process_cpu_ns")
#: a process on every core, and what a tick's rounding may add
MOST_PCT = 150.0
FEWEST_TICKS = 5
Fields = dict[str, str]


class Tick(NamedTuple):
    """One line: when it was written, and its fields as text."""

    t_ns: int
    fields: Fields

    def whole(self, name: str) -> int | None:
        """An integer field; None where it is not there."""
        value = self.fields.get(name)
        return int(value[:-1]) if value is not None and value.endswith("i") else None

    @property
    def written_ns(self) -> int:
        """When the agent wrote the counters that this line repeats.

        After the line's own time where the sampler was held up between its look at the clock and the file, as
        by an event `sensor_stall`.
        """
        return self.t_ns - round(float(self.fields.get("age_ms", "0")) * 1e6)

    @property
    def read_ns(self) -> int:
        """By when it read them, as far as its line tells."""
        return max(self.t_ns, self.written_ns)


def ticks_of(lines: list[str], series: str) -> list[Tick]:
    """The lines of one series."""
    head = f"{series},"
    found = []
    for line in lines:
        if line.startswith(head):
            _, body, stamp = head, *line.split(" ", 1)[1].rsplit(" ", 1)
            fields = [part.split("=", 1) for part in body.split(",") if "=" in part]
            found.append(Tick(int(stamp), dict(fields)))
    return found


def counters(cell: CellView, tally: Tally) -> None:
    """At no tick had a counter more than in the end; the last tick has every handshake; at each tick as many
    handshakes were complete, and as many datagrams sent and opened, as spans and ledgers say."""
    tally.unit = "ticks"
    if cell.raw.counters is None or any(event.get("event") == SHIFTED for event in cell.raw.events):
        return
    own, asleep = f'"{cell.cell_id}"', "sampler" in without(cell.run.condition(str(cell.plan["condition"])))
    for role in ROLES:
        lines = cell.raw.telemetry.get(role) or []
        ticks = [tick for tick in ticks_of(lines, "pq_tunnel") if "hs_completed" in tick.fields]
        named = [tick for tick in ticks if tick.fields.get("cell_id", own) == own]
        # an attempt before this one counted under the same name
        begun = [
            int(e["t_ns"]) for e in cell.raw.events if (e.get("host"), e.get("event")) == (role, "prepare")
        ]
        named = [tick for tick in named if tick.written_ns >= max(begun, default=0)]
        where = f"{cell.label} {role}"
        if not named:
            tally.require(
                asleep or not _owed(cell, role, lines),
                f"{where}: no line of telemetry.{role}.lp has this cell's counters, and the sampler ran",
            )
            continue
        ticks, total = named, _with_canary(cell, role)
        for name in ticks[-1].fields:
            last, end = ticks[-1].whole(name), total.get(name)
            if last is not None and isinstance(end, int) and last > end:
                tally.fail(
                    f"{where}: {name} {last} at the last tick of telemetry.{role}.lp, {end} in counters.json"
                )
        # on a processor that is played, tens of ms lie between what happens and what is written of it
        if not untimed_reasons(cell.run.hosts):
            _shakes(cell, role, ticks, tally)
            _datagrams(cell, role, ticks, tally)


def _owed(cell: CellView, role: str, lines: list[str]) -> bool:
    """Must the sampler have read the tunnel's counters? Virtual time has none, and a sensor may say why
    not."""
    if cell.run.scenario.get("ring") == "sim" or not has_witnesses(cell.run):
        return False
    absent = any(line.startswith("pq_sensor,") and "name=tunnel" in line for line in lines)
    return len(ticks_of(lines, "pq_sampler")) >= FEWEST_TICKS and not absent


def _with_canary(cell: CellView, role: str) -> Json:
    """The totals as the agent had them: the canary's share belongs to them."""
    total = dict((cell.raw.counters or {})[role])
    share = cell.raw.canary.counters.get(role, {}) if cell.raw.canary else {}
    for name, value in share.items():
        if isinstance(value, int) and isinstance(total.get(name), int):
            total[name] += value
    return total


def _shakes(cell: CellView, role: str, ticks: list[Tick], tally: Tally) -> None:
    offsets = [
        int(event["t_ns"]) - int(event["mono_ns"])
        for event in cell.raw.events
        if event.get("host") == role and isinstance(event.get("mono_ns"), int)
    ]
    if not offsets:
        return
    shift = int(median(offsets))
    ends = sorted(
        span.end_ns + shift for span in cell.raw.spans or [] if span.host == role and span.step == "handshake"
    )
    for tick in ticks:
        tally.see()
        told = tick.whole("hs_completed")
        least = bisect_right(ends, tick.written_ns - SLACK_NS)
        most = bisect_right(ends, tick.read_ns + SLACK_NS)
        if told is not None and not least <= told <= most:
            tally.fail(
                f"{cell.label} {role}: {told} handshakes complete in telemetry.{role}.lp at {tick.t_ns}, "
                f"{least if told < least else most} by the spans of spans.ndjson"
            )
            return


def _datagrams(cell: CellView, role: str, ticks: list[Tick], tally: Tally) -> None:
    """Not where a canary's datagrams are counted along."""
    ledger = cell.raw.ledgers.get(role)
    if ledger is None or cell.raw.canary is not None:
        return
    for name, column in (("tx_data", ledger.tx), ("rx_ok", ledger.rx)):
        moments = sorted(column.t_out_ns)
        for tick in ticks:
            told = tick.whole(name)
            least = bisect_right(moments, tick.written_ns - SLACK_NS)
            most = bisect_right(moments, tick.read_ns + SLACK_NS)
            if told is not None and not least <= told <= most:
                tally.fail(
                    f"{cell.label} {role}: {name} {told} in telemetry.{role}.lp at {tick.t_ns}, "
                    f"{least if told < least else most} rows of ledger.{role}.csv until then"
                )
                return


def processor(cell: CellView, tally: Tally) -> None:
    """Percentages lie within what the processors have and are those of their own cumulative counters, which
    never fall; all cores together have wall × cores of time; the handshakes' threads ran no longer than their
    process."""
    tally.unit = "ticks"
    for role in ROLES:
        ticks = ticks_of(cell.raw.telemetry.get(role) or [], "pq_cpu")
        host = cell.run.host(role)
        cores = whole_of(host, "cpu_count", 1)
        where = f"{cell.label} {role}: telemetry.{role}.lp"
        tally.looked += len(ticks)
        if problem := _out_of_range(ticks, cores):
            tally.fail(f"{where}: {problem}")
        if len(ticks) < FEWEST_TICKS:
            continue
        # a fault may have ended the process, and another one began at nothing
        whole = not cell.run.condition(str(cell.plan["condition"])).get("events")
        if problem := _falls(ticks, CUMULATIVE if whole else CUMULATIVE[:3]):
            tally.fail(f"{where}: {problem}")
            continue
        if untimed_reasons(cell.run.hosts):
            continue
        virtual = cell.run.scenario.get("ring") == "sim"
        told = host.get("os", "linux") == "linux"
        for problem in _growth(ticks, cores, told=told, whole=whole, virtual=virtual):
            tally.fail(f"{where}: {problem}")
        if whole:
            _threads(cell, role, ticks, tally)
        for tick in ticks_of(cell.raw.telemetry.get(role) or [], "pq_mem"):
            for name in tick.fields:
                if (value := tick.whole(name)) is not None and value < 0:
                    tally.fail(f"{where}: {name} {value}")
                    return


def _out_of_range(ticks: list[Tick], cores: int) -> str | None:
    for tick in ticks:
        for name, value in tick.fields.items():
            if name.endswith("_pct"):
                most = MOST_PCT * (1 if name.startswith("s") and name != "sampler_pct" else max(1, cores))
                if not 0.0 <= float(value) <= most:
                    return (
                        f"{name} {value} at {tick.t_ns}, {cores} cores of hosts/*.json have {most:g} at most"
                    )
    return None


def _falls(ticks: list[Tick], names: tuple[str, ...]) -> str | None:
    for name in names:
        values = [value for tick in ticks if (value := tick.whole(name)) is not None]
        for before, after in pairwise(values):
            if after < before:
                return f"{name} falls from {before} to {after}, and it is cumulative"
    return None


def _growth(ticks: list[Tick], cores: int, *, told: bool, whole: bool, virtual: bool) -> list[str]:
    first, last = ticks[0], ticks[-1]
    wall_ns = last.t_ns - first.t_ns

    def grown(name: str) -> int | None:
        ours, theirs = first.whole(name), last.whole(name)
        return None if ours is None or theirs is None else theirs - ours

    found = []
    total = grown("system_total_ms")
    wall_ms = wall_ns / 1e6 * cores
    slack_ms = CORES_SLACK_MS * cores
    least_ms, most_ms = wall_ms * (1 - CORES_LESS) - slack_ms, wall_ms * (1 + CORES_MORE) + slack_ms
    if told and total is not None and not least_ms <= total <= most_ms:
        found.append(
            f"system_total_ms grew by {total} in {wall_ns / 1e6:.0f} ms, cpu_count {cores} of "
            "hosts/*.json gives "
            f"{wall_ms:.0f}"
        )
    for name, counter in {**OF_ALL, **OF_ONE}.items():
        used, all_of = grown(counter), total if name in OF_ALL else wall_ns
        shares = [float(tick.fields[name]) for tick in ticks[1:] if name in tick.fields]
        if used is None or used < 0 or not all_of or not shares or (name in OF_ONE and not whole):
            continue
        due = 100 * used / all_of
        share, points = (SLACK_VIRTUAL if virtual else SLACK)[name]
        edge = 0.0 if virtual else 10.0 / len(shares)
        if abs(fmean(shares) - due) > points + share * due + edge:
            found.append(f"{name} has the mean {fmean(shares):.2f}, {counter} beside it gives {due:.2f}")
    if whole and (problem := _machine(ticks[1:], cores, virtual=virtual)):
        found.append(problem)
    return found


def _machine(ticks: list[Tick], cores: int, *, virtual: bool) -> str | None:
    """The whole machine, as a share of all cores, against the tunnel's process, as one of one core."""
    both = [
        (float(tick.fields["system_pct"]), float(tick.fields["process_pct"]))
        for tick in ticks
        if {"system_pct", "process_pct"} <= tick.fields.keys()
    ]
    if not both:
        return None
    machine, process = fmean(row[0] for row in both), fmean(row[1] for row in both) / cores
    share, points = SLACK_MACHINE_VIRTUAL if virtual else SLACK_MACHINE
    if process <= machine * (1 + share) + points:
        return None
    return (
        f"system_pct has the mean {machine:.3f}, and process_pct beside it, of {cores} cores, {process:.3f}: "
        "the machine was less busy than one process on it"
    )


def _threads(cell: CellView, role: str, ticks: list[Tick], tally: Tally) -> None:
    """What the threads of all handshakes ran, by their own clocks, against the process they belong to."""
    walls = [s for s in cell.raw.spans or [] if s.host == role and s.step == "handshake"]
    ran_ns = sum(span.cpu_ns or 0 for span in walls)
    first, last = ticks[0].whole("process_cpu_ns"), ticks[-1].whole("process_cpu_ns")
    if first is None or last is None:
        return
    used_ns = last - first
    tally.require(
        used_ns > 0 or not walls,
        f"{cell.label} {role}: {len(walls)} handshakes in spans.ndjson by a process that ran no ns "
        f"(process_cpu_ns in telemetry.{role}.lp)",
    )
    tally.require(
        ran_ns <= used_ns + SLACK_NS + used_ns // 50,
        f"{cell.label} {role}: the handshakes' threads ran {ran_ns / 1e6:.1f} ms (cpu_ns in "
        "spans.ndjson) in a "
        f"process that ran {used_ns / 1e6:.1f} ms (process_cpu_ns in telemetry.{role}.lp)",
    )
