"""The traffic contract as pure functions: is this the traffic that the scenario asked for?

A cell whose traffic lies outside is `invalid`, not a result. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pqsitl.profile import UPLINK_TIMESYNC_HZ, expected_histogram

RATE_TOLERANCE_LONG_PCT = 2.0
"""Windows of at least LONG_WINDOW_S."""
RATE_TOLERANCE_SHORT_PCT = 10.0
LONG_WINDOW_S = 10.0
MAX_TV_DISTANCE = 0.05


@dataclass(frozen=True)
class ContractCheck:
    """One line of the verdict."""

    name: str
    ok: bool
    observed: float | int | None
    expected: float | int | None
    detail: str


@dataclass(frozen=True)
class ContractResult:
    """All lines; `ok` only if every one is."""

    checks: tuple[ContractCheck, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def reason(self) -> str | None:
        """The failed lines in words, None when there is none."""
        failed = [f"{check.name}: {check.detail}" for check in self.checks if not check.ok]
        return "; ".join(failed) if failed else None

    def as_dict(self) -> dict[str, object]:
        """For the record: {ok, reason, checks:[{name, ok, observed, expected, detail}]}."""
        return {"ok": self.ok, "reason": self.reason, "checks": [asdict(check) for check in self.checks]}


def size_counts(sizes: Mapping[str, int] | Mapping[int, int]) -> dict[int, int]:
    """A size histogram with integer keys (JSON objects have text keys)."""
    return {int(size): int(count) for size, count in sizes.items()}


def tv_distance(observed: Mapping[int, float] | Mapping[int, int], expected: Mapping[int, float]) -> float:
    """Total-variation distance, 0 (equal) … 1 (disjoint): half the sum of absolute differences of shares.

    Both are normalised first. ValueError when one holds nothing: no traffic has no distance.
    """
    total_observed, total_expected = sum(observed.values()), sum(expected.values())
    if total_observed <= 0 or total_expected <= 0:
        raise ValueError("a histogram without datagrams has no distance")
    keys = set(observed) | set(expected)
    return 0.5 * sum(
        abs(observed.get(key, 0) / total_observed - expected.get(key, 0) / total_expected) for key in keys
    )


def rate_tolerance_pct(duration_s: float) -> float:
    """± 2 % from 10 s on, ± 10 % below."""
    return RATE_TOLERANCE_LONG_PCT if duration_s >= LONG_WINDOW_S else RATE_TOLERANCE_SHORT_PCT


def check_rate(count: int, duration_s: float, nominal_hz: float) -> ContractCheck:
    """Achieved rate = count / duration against the nominal."""
    if duration_s <= 0:
        return ContractCheck("traffic_rate", False, None, nominal_hz, "the window has no duration")
    achieved_hz = count / duration_s
    deviation_pct = 100.0 * (achieved_hz / nominal_hz - 1.0)
    tolerance_pct = rate_tolerance_pct(duration_s)
    detail = (
        f"{count} datagrams in {duration_s:.2f} s = {achieved_hz:.2f} Hz, "
        f"{deviation_pct:+.2f} % of {nominal_hz:g} Hz (allowed ± {tolerance_pct:g} %)"
    )
    return ContractCheck("traffic_rate", abs(deviation_pct) <= tolerance_pct, achieved_hz, nominal_hz, detail)


def check_sizes(observed: Mapping[int, int], expected: Mapping[int, float]) -> ContractCheck:
    """Size histogram against the expected shares."""
    if sum(observed.values()) == 0:
        return ContractCheck("traffic_sizes", False, None, MAX_TV_DISTANCE, "no datagram was seen")
    distance = tv_distance(observed, expected)
    detail = f"total-variation distance {distance:.4f} (allowed ≤ {MAX_TV_DISTANCE})"
    return ContractCheck("traffic_sizes", distance <= MAX_TV_DISTANCE, distance, MAX_TV_DISTANCE, detail)


def check_loss(sent_count: int, received_count: int) -> ContractCheck:
    """Unimpaired: both ends agree to the last datagram; more than were sent is as wrong as fewer."""
    detail = f"{sent_count} in at one end, {received_count} out at the other"
    return ContractCheck("traffic_loss", sent_count == received_count, received_count, sent_count, detail)


def check_traffic(
    *,
    count: int,
    duration_s: float,
    nominal_hz: float,
    sizes: Mapping[int, int] | Mapping[str, int],
    profile: str | None,
    received_count: int | None = None,
    uplink: bool = False,
    overhead_bytes: int = 0,
) -> ContractResult:
    """The whole contract of one window.

    `count` and `sizes` are of one place (say, the entry of the tunnel), `received_count` of the far end
    (None: not compared). `profile` None means fixed-size bulk: sizes must then all be equal.
    `uplink`: TIMESYNC answers run along, 2 Hz are expected on top of `nominal_hz`.
    """
    histogram = size_counts(sizes)
    expected_hz = nominal_hz
    if profile is None:
        one = len(histogram) == 1
        sizes_check = ContractCheck(
            "traffic_sizes", one, len(histogram), 1, f"{len(histogram)} different sizes, bulk has one"
        )
    else:
        shares = expected_histogram(profile, nominal_hz, uplink=uplink, overhead_bytes=overhead_bytes)
        sizes_check = check_sizes(histogram, shares)
        if uplink:
            expected_hz += UPLINK_TIMESYNC_HZ
    checks = [check_rate(count, duration_s, expected_hz), sizes_check]
    if received_count is not None:
        checks.append(check_loss(count, received_count))
    return ContractResult(tuple(checks))
