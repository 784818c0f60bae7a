"""Forwarding: every peer under the same loads, by one load generator, in interleaved rounds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pqbase.documents import Json, number_of, number_or_none, numbers_of, whole_of
from pqbase.stats import tail
from pqbench.children import child, output_of
from pqbench.errors import ChildFailed
from pqbench.figures import median, paired_ratio, rounded
from pqbench.machine import process_cpu_ns, system_busy_ns
from pqbench.peers import Forwarder, binary
from pqbench.spaces import ADDRESS, Spaces
from pqbench.tunnel import SINK_PORT

SOURCE_PORT: Final = 45_001
ACK_PORT: Final = 45_003
WINDOW: Final = 1024
BURST: Final = 32
RATE_HZ: Final = 320
BURSTS_HZ: Final = 100


@dataclass(frozen=True)
class Load:
    """What is offered. `groups_hz` None: as much as the sink acknowledges, `WINDOW` on their way."""

    name: str
    size_bytes: int
    burst: int
    groups_hz: int | None
    seconds: float

    @property
    def key(self) -> str:
        """Name of the load with its size."""
        return f"{self.name}_{self.size_bytes}b"


def loads(seconds: float) -> list[Load]:
    """320 Hz, bursts of 32 at 100 Hz, and as fast as it goes, each with both sizes."""
    found = []
    for size_bytes in (64, 1200):
        found.append(Load("320_hz", size_bytes, 1, RATE_HZ, seconds))
        found.append(Load("bursts_of_32", size_bytes, BURST, BURSTS_HZ, seconds / 2))
        found.append(Load("max_rate", size_bytes, BURST, None, seconds / 2))
    return found


def _generator(load: Load, forwarder: Forwarder) -> list[str]:
    common = [
        "--source",
        f"{forwarder.source}:{SOURCE_PORT}",
        "--target",
        forwarder.entry,
        "--size",
        str(load.size_bytes),
        "--burst",
        str(load.burst),
        "--seconds",
        str(load.seconds),
    ]
    if load.groups_hz is None:
        ack = f"{ADDRESS['drone']}:{ACK_PORT}"
        return [binary("pqload"), "closed", *common, "--window", str(WINDOW), "--ack", ack, "--train", "1"]
    return [binary("pqload"), "send", *common, "--groups-hz", str(load.groups_hz)]


def offer(where: Spaces, load: Load, forwarder: Forwarder) -> Json:
    """One load through one forwarder. Raises ChildFailed."""
    sink_command = [binary("pqload"), "sink", "--listen", f"0.0.0.0:{SINK_PORT}"]
    if load.groups_hz is None:
        sink_command += ["--ack", f"{ADDRESS['drone']}:{ACK_PORT}"]
    with child("sink", where.at("gcs", *sink_command)) as sink:
        sink.wait_ready()
        cpu_ns, busy_ns = process_cpu_ns(forwarder.pids), system_busy_ns()
        sent = json.loads(output_of(_generator(load, forwarder)))
        got = json.loads(sink.finish())
        cpu_ns, busy_ns = process_cpu_ns(forwarder.pids) - cpu_ns, system_busy_ns() - busy_ns
    latencies_us = [value / 1e3 for value in got.pop("latencies_ns")]
    count = got["received_count"]
    if not count:
        raise ChildFailed(f"{forwarder.name}: none of {sent['sent_count']} datagrams arrived")
    return {
        **got,
        "sent_count": sent["sent_count"],
        "lost_count": sent["sent_count"] - count,
        "late_groups_count": sent.get("late_groups_count"),
        "received_hz": count / got["seconds"] if got["seconds"] > 0 else None,
        "cpu_us_per_packet": cpu_ns / 1e3 / count,
        "machine_cpu_us_per_packet": busy_ns / 1e3 / count,
        "latencies_us": latencies_us,
    }


def rounds(
    where: Spaces,
    forwarders: Mapping[str, Forwarder],
    wanted: list[Load],
    count: int,
    tell: Callable[[str], None],
) -> dict[str, dict[str, list[Json]]]:
    """Load key → forwarder → one result a round. Within a round every forwarder meets each load once; who
    goes first moves on from round to round."""
    taken: dict[str, dict[str, list[Json]]] = {load.key: {name: [] for name in forwarders} for load in wanted}
    names = list(forwarders)
    for name in names:  # warm-up, not counted: sessions, routes, caches
        try:
            offer(where, Load("warm-up", 64, BURST, BURSTS_HZ, 0.3), forwarders[name])
        except ChildFailed as error:
            tell(f"warm-up: {error}")  # the rounds say it in the result
    for number in range(count):
        first = number % len(names)
        for load in wanted:
            for name in names[first:] + names[:first]:
                try:
                    taken[load.key][name].append(offer(where, load, forwarders[name]))
                except ChildFailed as error:
                    taken[load.key][name].append({"missing": str(error)})
        tell(f"forwarding: round {number + 1} of {count} done")
    return taken


def summary(rows: list[Json], bare: list[Json]) -> Json:
    """Medians of the rounds; quantiles of latency over the datagrams of all rounds; CPU, p50 and p99 also as
    median ratio to the bare forwarder of the same round."""
    failed = [row["missing"] for row in rows if "missing" in row]
    if failed or not rows:
        return {"missing": failed[0] if failed else "no round was run"}
    latencies_us = [value for row in rows for value in numbers_of(row, "latencies_us")]

    def middle(name: str) -> float | None:
        values = [number_or_none(row, name) for row in rows]
        known = [value for value in values if value is not None]
        return median(known) if len(known) == len(values) else None

    def ratio(figure: Callable[[Json], float | None]) -> float | None:
        if any("missing" in row for row in bare):
            return None
        mine, other = [figure(row) for row in rows], [figure(row) for row in bare]
        return rounded(paired_ratio([v for v in mine if v is not None], [v for v in other if v is not None]))

    return {
        "rounds": len(rows),
        "datagrams_count": len(latencies_us),
        "sent_count": sum(whole_of(row, "sent_count") for row in rows),
        "lost_count": sum(whole_of(row, "lost_count") for row in rows),
        "received_hz": rounded(middle("received_hz"), 1),
        "cpu_us_per_packet": rounded(middle("cpu_us_per_packet"), 2),
        "machine_cpu_us_per_packet": rounded(middle("machine_cpu_us_per_packet"), 2),
        "p50_us": rounded(tail(latencies_us, 0.5), 1),
        "p99_us": rounded(tail(latencies_us, 0.99), 1),
        "cpu_ratio_to_bare": ratio(lambda row: number_of(row, "cpu_us_per_packet")),
        "p50_ratio_to_bare": ratio(lambda row: tail(numbers_of(row, "latencies_us"), 0.5)),
        "p99_ratio_to_bare": ratio(lambda row: tail(numbers_of(row, "latencies_us"), 0.99)),
    }


def summaries(taken: dict[str, dict[str, list[Json]]]) -> dict[str, Json]:
    """Load key → forwarder → summary."""
    return {
        key: {name: summary(rows, by_name.get("bare", [])) for name, rows in by_name.items()}
        for key, by_name in taken.items()
    }


def raw(taken: dict[str, dict[str, list[Json]]]) -> dict[str, dict[str, list[Json]]]:
    """The rounds without their single latencies, each with its own p50 and p99."""
    return {
        key: {
            name: [
                {
                    **{field: value for field, value in row.items() if field != "latencies_us"},
                    **(
                        {}
                        if "missing" in row
                        else {
                            "p50_us": rounded(tail(numbers_of(row, "latencies_us"), 0.5), 1),
                            "p99_us": rounded(tail(numbers_of(row, "latencies_us"), 0.99), 1),
                        }
                    ),
                }
                for row in rows
            ]
            for name, rows in by_name.items()
        }
        for key, by_name in taken.items()
    }
