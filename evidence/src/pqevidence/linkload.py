"""What a plan asks of its links: traffic that a condition's rate cannot carry, said before anything runs.

Reckoned of the drone's stream and of bulk, which both go from drone to ground, in IP packets, as the router
counts its rate. What the ground sends beside them is a few datagrams a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pqbase.documents import Json, number_of, numbers_of, part_of, rows_of, whole_of
from pqevidence.plan import Cell
from pqevidence.scenario.model import Scenario
from pqlink.trace import parse_trace
from pqsitl.profile import TIMESYNC_REPLY_BYTES, expected_rates_hz, load_profile
from pqtunnel.packet import OVERHEAD_BYTES

#: IPv4 and UDP heads, and what sealing adds to a datagram
_BESIDE_BYTES: Final = 20 + 8 + OVERHEAD_BYTES


def beyond_links(scenario: Scenario, cells: Iterable[Cell]) -> list[str]:
    """One sentence for each condition with cells, and each of its events, whose link is too narrow for the
    traffic, and one where it is for bulk; [] where everything fits.

    Raises TraceError for a trace that cannot be read.
    """
    planned = {cell.condition for cell in cells}
    found = []
    for condition in scenario.conditions:
        if condition["name"] in planned:
            for name, bit_s in _rates(scenario, condition):
                found += [
                    f"beyond the link: {name} carries {_rate(bit_s)} to the ground, {text}"
                    for text in _needs(scenario, bit_s)
                ]
    return found


def traffic_bit_s(scenario: Scenario) -> float:
    """What the session puts on the way to the ground, bit/s of IP packets; 0 without one, and for a
    recording, whose rate nobody knows before."""
    traffic = scenario.traffic
    if traffic is None or traffic["source"] == "tlog":
        return 0.0
    profile = load_profile(str(traffic["profile"]))
    sizes = {**profile.sizes, "TIMESYNC_REPLY": TIMESYNC_REPLY_BYTES}
    rates = expected_rates_hz(profile, number_of(traffic, "rate_hz"), uplink=True)
    return sum(8 * hz * (sizes[name] + _BESIDE_BYTES) for name, hz in rates.items())


def _needs(scenario: Scenario, bit_s: float) -> Iterator[str]:
    """What is too much for a link of that rate."""
    asked_bit_s = traffic_bit_s(scenario)
    if scenario.traffic is not None and asked_bit_s > bit_s:
        rate_hz, lost = number_of(scenario.traffic, "rate_hz"), 100 * (1 - bit_s / asked_bit_s)
        yield (
            f"traffic of {rate_hz:g} messages a second needs {_rate(asked_bit_s)}: "
            f"{lost:.0f} % of it cannot arrive"
        )
    bulk = scenario.bulk
    if bulk is None:
        return
    bits = 8 * (whole_of(bulk, "size_bytes") + _BESIDE_BYTES)
    rates_pps = numbers_of(bulk, "rates_pps")
    above = sorted(float(pps) for pps in rates_pps if pps * bits > bit_s)
    if above:
        step_s = number_of(bulk, "step_s")
        takes = f"{above[-1] * bits * step_s / bit_s:.3g} s" if bit_s else "for ever"
        yield (
            f"bulk needs more in {len(above)} of {len(rates_pps)} rungs: "
            f"what {above[-1]:g} datagrams a second offer in {step_s:g} s takes it {takes}"
        )


def _rates(scenario: Scenario, condition: Json) -> Iterator[tuple[str, float]]:
    """(condition, or its event; bit/s to the ground) wherever a rate is set."""
    name = str(condition["name"])
    side = _up(condition)
    if side.get("rate_kbps"):
        yield name, 1000.0 * number_of(side, "rate_kbps")
    if trace := part_of(side, "trace", {}):
        mean = parse_trace(scenario.traces[str(trace["sha256"])].read_bytes()).mean_rate_bit_s
        if mean is not None:
            yield f"{name} (its trace, in the mean)", mean
    for event in rows_of(condition, "events"):
        if event.get("kind") == "link" and (rate := number_of(_up(event), "rate_kbps", 0)):
            yield f"{name} (its event at {number_of(event, 'at_s'):g} s)", 1000.0 * rate


def _up(block: Json) -> Json:
    """Its settings from drone to ground."""
    link = block.get("link")
    return part_of(link, "up", {}) if isinstance(link, Mapping) else {}


def _rate(bit_s: float) -> str:
    return f"{bit_s / 1e6:.3g} Mbit/s" if bit_s >= 1e6 else f"{bit_s / 1e3:.3g} kbit/s"
