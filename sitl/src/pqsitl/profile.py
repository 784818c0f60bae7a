"""Traffic profiles: which messages, how large, how often, and which of them leave together.

The mix, sizes and burst figures are measured (data/arducopter-traffic.json). The burst *plans* below are
ours: a short cycle of bursts whose mean, median, 95th percentile and count agree with the measured ones.
Standard library only: the analysis side imports this.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources

from pqsitl.errors import SpecError

DATA_FILE = "arducopter-traffic.json"
DEFAULT_PROFILE = "intervals_320hz"
UPLINK_TIMESYNC_HZ = 2.0
TIMESYNC_REPLY_BYTES = 28
"""TIMESYNC with both 64-bit stamps set and no target: 16 payload bytes + 12 of MAVLink 2 framing."""

# Messages on a period of their own; they never scale with the rate.
FIXED_NAMES = ("HEARTBEAT", "TERRAIN_REQUEST", "TIMESYNC", "PARAM_VALUE")


@dataclass(frozen=True)
class MixRow:
    """One message of a profile; `size_bytes` is the whole MAVLink 2 frame = the UDP payload."""

    msgid: int
    name: str
    rate_hz: float
    size_bytes: int


@dataclass(frozen=True)
class BurstStats:
    """Measured burst sizes, in frames whose gap is below 2 ms."""

    p50: int
    p95: int
    per_second: float


@dataclass(frozen=True)
class Burst:
    """Messages that leave together, at `offset` (0 ≤ offset < 1) of the cycle."""

    offset: float
    names: tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    """A measured profile and the plan that reproduces it."""

    name: str
    how: str
    source: str
    rate_hz: float
    mix: tuple[MixRow, ...]
    burst_stats: BurstStats
    cycle: tuple[Burst, ...]

    @property
    def sizes(self) -> dict[str, int]:
        """Frame bytes by message name."""
        return {row.name: row.size_bytes for row in self.mix}

    @property
    def fixed_hz(self) -> dict[str, float]:
        """Rates of the messages that keep their own period."""
        return {row.name: row.rate_hz for row in self.mix if row.name in FIXED_NAMES}

    @property
    def cycle_count(self) -> int:
        """Messages in one cycle."""
        return sum(len(burst.names) for burst in self.cycle)

    def cycle_s(self, rate_hz: float) -> float:
        """Length of one cycle so that all messages together reach `rate_hz`."""
        streamed_hz = rate_hz - sum(self.fixed_hz.values())
        if streamed_hz <= 0:
            raise SpecError(
                f"rate_hz {rate_hz} is below the {sum(self.fixed_hz.values()):.2f}/s that never scale",
                f"choose at least 2 Hz; {self.name} was measured at {self.rate_hz} Hz",
            )
        return self.cycle_count / streamed_hz


def _interval_cycle() -> tuple[Burst, ...]:
    """40 base ticks of ATTITUDE + LOCAL_POSITION_NED (100 Hz at nominal rate).

    Every second tick carries RAW_IMU + SERVO_OUTPUT_RAW, every tenth also the 10 Hz pair. In 7 of the 20
    even ticks the second pair leaves half a tick later, as the autopilot's scheduler lets it when a loop
    runs out of time: that gives the measured 117 bursts/s, median 2, 95th percentile 6.
    """
    slipped = {2, 4, 7, 9, 12, 14, 17}
    bursts: list[Burst] = []
    for tick in range(40):
        names: tuple[str, ...] = ("ATTITUDE", "LOCAL_POSITION_NED")
        late: tuple[str, ...] = ()
        if tick % 2 == 0:
            half = tick // 2
            if half in slipped:
                late = ("SERVO_OUTPUT_RAW", "RAW_IMU")
            else:
                names += ("SERVO_OUTPUT_RAW", "RAW_IMU")
            if half % 5 == 0:
                names += ("GLOBAL_POSITION_INT", "VFR_HUD")
        bursts.append(Burst(tick / 40, names))
        if late:
            bursts.append(Burst((tick + 0.5) / 40, late))
    return tuple(bursts)


def _stream_cycle(names: tuple[str, ...], periods: tuple[tuple[int, ...], ...]) -> tuple[Burst, ...]:
    """Each period sends every stream once, cut into evenly spaced bursts of the given sizes."""
    bursts: list[Burst] = []
    for number, sizes in enumerate(periods):
        if sum(sizes) != len(names):
            raise ValueError(f"burst sizes {sizes} do not add up to the {len(names)} streams")
        taken = 0
        for position, size in enumerate(sizes):
            offset = (number + position / len(sizes)) / len(periods)
            bursts.append(Burst(offset, names[taken : taken + size]))
            taken += size
    return tuple(bursts)


# Burst sizes per stream period, chosen to the measured median, 95th percentile and count per second.
_STREAM_PERIODS: dict[str, tuple[tuple[int, ...], ...]] = {
    "streams_12hz": ((9, 9, 9), (12, 9, 3, 3)),
    "default_4hz": ((8, 8, 8, 3), (14, 8, 5), (8, 8, 3, 8), (14, 8, 5), (8, 3, 8, 8)),
}


@cache
def _document() -> dict[str, object]:
    text = resources.files("pqsitl").joinpath("data", DATA_FILE).read_text(encoding="utf-8")
    loaded: dict[str, object] = json.loads(text)
    return loaded


@cache
def profile_names() -> tuple[str, ...]:
    """Names of all measured profiles."""
    profiles = _document()["profiles"]
    assert isinstance(profiles, dict)
    return tuple(profiles)


@cache
def load_profile(name: str = DEFAULT_PROFILE) -> Profile:
    """Profile `name`; SpecError names the known ones."""
    if name not in profile_names():
        raise SpecError(f"no traffic profile {name!r}", f"known profiles: {', '.join(profile_names())}")
    document = _document()
    profiles = document["profiles"]
    assert isinstance(profiles, dict)
    raw = profiles[name]
    mix = tuple(
        MixRow(int(row["msgid"]), str(row["name"]), float(row["rate_hz"]), int(row["bytes"]))
        for row in raw["mix"]
    )
    burst = raw["burst_frames_gap_lt_2ms"]
    stats = BurstStats(int(burst["p50"]), int(burst["p95"]), burst["count"] / raw["duration_s"])
    if name in _STREAM_PERIODS:
        streamed = tuple(row.name for row in mix if row.name not in FIXED_NAMES)
        cycle = _stream_cycle(streamed, _STREAM_PERIODS[name])
    else:
        cycle = _interval_cycle()
    return Profile(name, str(raw["how"]), str(document["source"]), float(raw["rate_hz"]), mix, stats, cycle)


def expected_rates_hz(
    profile: Profile, rate_hz: float | None = None, *, uplink: bool = False
) -> dict[str, float]:
    """Messages per second by name when the profile runs at `rate_hz`.

    `uplink` adds the vehicle's answers to the ground's 2 Hz TIMESYNC probe under the name TIMESYNC_REPLY;
    MAVProxy itself adds nothing to the vehicle's direction and forwards frame by frame.
    """
    total_hz = profile.rate_hz if rate_hz is None else rate_hz
    cycle_s = profile.cycle_s(total_hz)
    rates: dict[str, float] = dict(profile.fixed_hz)
    for burst in profile.cycle:
        for name in burst.names:
            rates[name] = rates.get(name, 0.0) + 1.0 / cycle_s
    if uplink:
        rates["TIMESYNC_REPLY"] = UPLINK_TIMESYNC_HZ
    return rates


def expected_histogram(
    profile: Profile | str, rate_hz: float | None = None, *, uplink: bool = False, overhead_bytes: int = 0
) -> dict[int, float]:
    """Share of datagrams by size in bytes (sums to 1); `overhead_bytes` shifts to sealed sizes."""
    known = load_profile(profile) if isinstance(profile, str) else profile
    sizes = {**known.sizes, "TIMESYNC_REPLY": TIMESYNC_REPLY_BYTES}
    rates = expected_rates_hz(known, rate_hz, uplink=uplink)
    total_hz = sum(rates.values())
    shares: dict[int, float] = {}
    for name, hz in rates.items():
        size = sizes[name] + overhead_bytes
        shares[size] = shares.get(size, 0.0) + hz / total_hz
    return shares
