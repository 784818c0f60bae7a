"""Simulator against lab: the distribution of every feature in recordings, and in simulated twins of them.

A twin has the recording's length, vehicle rate, link profile and attack; what the simulator makes of that is
held against what the lab's endpoint really counted. The distance is that of Kolmogorov and Smirnov: the
greatest difference of the two distribution functions, 0 (same) to 1 (apart).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.errors import RecordingError
from pqdetect.evaluation.results import DistanceRow
from pqdetect.features import FEATURE_NAMES, features_many
from pqdetect.features.window import Row
from pqdetect.feed import WINDOW_S, column
from pqdetect.recording import Recording, labels
from pqdetect.simulate import AttackSpec, GroundSpec, LinkSpec, Spec, simulate, table

TWINS: Final = 5
QUIET, ATTACK = "no attack", "attack"
LAB_LINKS: Final = {
    "narrow": LinkSpec(delay_ms=0.4, rate_kbps=64, queue_ms=200, router_pps=40_000, fifo=True, shared=True)
}
"""Ways of the lab that are no profile of the simulator (scenarios/overlays/narrow-64k.yml), by first word."""


@dataclass(frozen=True)
class Distance:
    """One feature under one condition."""

    condition: str
    feature: str
    ks: float | None
    """None where one side has no known value."""
    lab_median: float | None
    sim_median: float | None
    lab_p95: float | None
    sim_p95: float | None
    lab_count: int
    sim_count: int

    def as_row(self) -> DistanceRow:
        """As it stands in the results of an evaluation."""
        return {
            "condition": self.condition,
            "feature": self.feature,
            "ks": self.ks,
            "lab_median": self.lab_median,
            "sim_median": self.sim_median,
            "lab_p95": self.lab_p95,
            "sim_p95": self.sim_p95,
            "lab_count": self.lab_count,
            "sim_count": self.sim_count,
        }


def rows_of(recording: Recording) -> Row:
    """(K, len(FEATURE_NAMES)) float32; windows that never came are rows of NaN."""
    rows = features_many(recording.counts, recording.deltas)
    rows[~recording.came] = np.nan
    return rows


def ks_distance(one: NDArray[np.floating], other: NDArray[np.floating]) -> float | None:
    """Greatest difference of the two empirical distribution functions; NaN values are left out."""
    a, b = np.sort(one[np.isfinite(one)]), np.sort(other[np.isfinite(other)])
    if not len(a) or not len(b):
        return None
    both = np.concatenate([a, b])
    below_a = np.searchsorted(a, both, side="right") / len(a)
    below_b = np.searchsorted(b, both, side="right") / len(b)
    return float(np.abs(below_a - below_b).max())


def twin(recording: Recording, number: int) -> Spec:
    """A simulated flight of the same length, vehicle rate, link and attack."""
    truth = recording.truth
    link = _link(truth.profile)
    tx = recording.counts[:, :, column("tx_data")].sum(axis=1)
    flows = np.flatnonzero(tx > 0)
    begin_s = float(flows[0]) * WINDOW_S if len(flows) else 0.0
    # The vehicle's 2 Hz of answers come on top of the rate that is asked for.
    rate_hz = float(np.median(tx[flows])) / WINDOW_S - 2.0 if len(flows) else 320.0
    ground = GroundSpec(tx_rate_hz=max(3.0, rate_hz), setup_s=begin_s)
    return Spec(
        f"twin-{truth.scenario_id}-{number}",
        (truth.seed * 31 + number) % (1 << 31),
        truth.kind,
        "twin",
        truth.profile,
        len(recording) * WINDOW_S,
        link,
        ground,
        attacks=_attacks(recording, link.shared),
    )


def _link(profile: str) -> LinkSpec:
    """The middle of the simulator's profile of that name, without its events; a way of the lab by its
    rate."""
    for name, known in LAB_LINKS.items():
        if profile.startswith(name):
            return known
    given = table()["profiles"].get(profile, table()["profiles"]["direct"])

    def middle(span: list[float] | None) -> float:
        return 0.0 if span is None else float(np.mean(span))

    return LinkSpec(
        delay_ms=middle(given.get("delay_ms")),
        jitter_ms=middle(given.get("jitter_ms")),
        loss_pct=middle(given.get("loss_pct")),
        rate_kbps=middle(given.get("rate_kbps")),
        queue_ms=middle(given.get("queue_ms")) or 1000.0,
        router_pps=middle(given.get("router_pps")),
        shared=bool(given.get("shared")),
        fifo=bool(given.get("fifo")),
    )


def _attacks(recording: Recording, shared: bool) -> tuple[AttackSpec, ...]:
    truth = recording.truth
    found = []
    for one, where in zip(truth.episodes, labels(recording).episodes, strict=True):
        for_s = max(0.02, (one.t_off_ns - one.t_on_ns) / 1e9)
        rate = one.sent_count / for_s if one.sent_count else one.rate_pps
        if one.kind == "ramp":
            rate *= 2  # the mean of a ramp from nothing is half its end
        span = recording.counts[where.first : where.last + 1]
        datagrams = int(span[:, :, column("rx_datagrams")].sum())
        size = int(span[:, :, column("rx_bytes")].sum() / datagrams) if datagrams else 64
        found.append(
            AttackSpec(
                "flood" if one.kind == "pulsing" else one.kind,
                (one.t_on_ns - truth.t0_ns) / 1e9,
                for_s,
                rate,
                size,
                shared,
            )
        )
    return tuple(found)


def compare(recordings: Sequence[Recording], twins: int = TWINS) -> list[Distance]:
    """Distances of every feature, without and under attack. Raises RecordingError without recordings."""
    if not recordings:
        raise RecordingError(
            "no recording to compare with", hint="name folders with bins.ndjson and truth.json"
        )
    lab: dict[str, list[Row]] = {QUIET: [], ATTACK: []}
    sim: dict[str, list[Row]] = {QUIET: [], ATTACK: []}
    for recording in recordings:
        _sort(recording, lab)
        for number in range(twins):
            _sort(simulate(twin(recording, number)), sim)
    found: list[Distance] = []
    for condition in (QUIET, ATTACK):
        if not lab[condition] or not sim[condition]:
            continue
        real, made = np.concatenate(lab[condition]), np.concatenate(sim[condition])
        for place, name in enumerate(FEATURE_NAMES):
            found.append(_distance(condition, name, real[:, place], made[:, place]))
    return found


def _sort(recording: Recording, into: dict[str, list[Row]]) -> None:
    rows, truth = rows_of(recording)[recording.came], labels(recording)
    under = (truth.episode >= 0)[recording.came]
    # Windows before the first and after the last traffic are set-up and draining, not flight.
    flies = rows[:, FEATURE_NAMES.index("tx_data")] > 0
    into[QUIET].append(rows[~under & flies])
    if under.any():
        into[ATTACK].append(rows[under & flies])


def _distance(condition: str, name: str, real: NDArray[np.floating], made: NDArray[np.floating]) -> Distance:
    def quantile(values: NDArray[np.floating], share: float) -> float | None:
        known = values[np.isfinite(values)]
        # numpy's default is type 7, as everywhere (docs/STATISTICS.md); a tail needs one value beyond it
        return float(np.quantile(known, share)) if len(known) * (1.0 - share) >= 1.0 - 1e-9 else None

    return Distance(
        condition,
        name,
        ks_distance(real, made),
        quantile(real, 0.5),
        quantile(made, 0.5),
        quantile(real, 0.95),
        quantile(made, 0.95),
        int(np.isfinite(real).sum()),
        int(np.isfinite(made).sum()),
    )


def markdown(distances: Sequence[Distance]) -> str:
    """A table, the greatest distances first within each condition."""
    lines = [
        "| condition | feature | KS | median lab | median sim | p95 lab | p95 sim | windows lab / sim |",
        "|---|---|---|---|---|---|---|---|",
    ]
    order = sorted(
        distances, key=lambda one: (one.condition != QUIET, -(one.ks if one.ks is not None else 2.0))
    )
    for one in order:
        values = (one.ks, one.lab_median, one.sim_median, one.lab_p95, one.sim_p95)
        told = " | ".join("–" if value is None else f"{value:.3g}" for value in values)
        lines.append(f"| {one.condition} | {one.feature} | {told} | {one.lab_count} / {one.sim_count} |")
    return "\n".join(lines)
