"""Drawing scenarios of a split from the table `splits.json`: the same seed gives the same scenarios.

Attack-free scenarios and attack scenarios come interleaved, so that a prefix of a split is a fair sample of
it.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Final, TypedDict

import numpy as np

from pqdetect.errors import SimulationError
from pqdetect.simulate.spec import AttackSpec, GroundSpec, LinkSpec, Spec, SplitName, StraySpec

FILE: Final = "splits.json"
BENIGN_S: Final = (900.0, 3600.0)
ATTACK_S: Final = (600.0, 1200.0)
SESSION_S: Final = (60.0, 300.0)
"""A quarter of the scenarios are as short as a cell of the lab: history does not fill up."""
SHORT_SHARE: Final = 0.25
ATTACK_FOR_S: Final = (3.0, 60.0)
QUIET_BETWEEN_S: Final = (30.0, 120.0)


@cache
def _text() -> str:
    return resources.files("pqdetect.simulate").joinpath(FILE).read_text(encoding="utf-8")


class HeldOut(TypedDict):
    """What is in the test split alone."""

    kinds: list[str]
    profiles: list[str]
    rates: list[float]


class Split(TypedDict):
    """One split; rates (1/s) by sort of attack."""

    seed: int
    benign_hours: float
    attack_hours: float
    profiles: list[str]
    kinds: list[str]
    rates: dict[str, list[float]]


class Profile(TypedDict, total=False):
    """A link: ranges [low, high], events an hour, and what it is (1) or not."""

    delay_ms: list[float]
    jitter_ms: list[float]
    loss_pct: list[float]
    rate_kbps: list[float]
    queue_ms: list[float]
    router_pps: list[float]
    duplicate_pct: list[float]
    reorder_pct: list[float]
    corrupt_pct: list[float]
    fades: float
    fade_s: list[float]
    bursts: float
    burst_ms: list[float]
    stalls: float
    stall_s: list[float]
    shared: int
    fifo: int
    narrow: int


class Table(TypedDict):
    """splits.json. kinds: sort of each attack; themes: weight of each, and by what it multiplies."""

    splits: dict[str, Split]
    held_out: HeldOut
    kinds: dict[str, str]
    themes: dict[str, dict[str, float]]
    events_per_hour: dict[str, float]
    profiles: dict[str, Profile]


@cache
def table() -> Table:
    """The whole table."""
    loaded: Table = json.loads(_text())
    return loaded


def table_sha256() -> str:
    """Hash of the table, for model cards."""
    return hashlib.sha256(_text().encode()).hexdigest()


def scenarios(
    split: SplitName, *, scale: float = 1.0, seed: int | None = None, attacks: bool | None = None
) -> Iterator[Spec]:
    """Scenarios of a split until its hours × `scale` are reached. `seed` replaces the split's own (another
    draw of the same population); `attacks` True or False keeps one sort alone. Raises SimulationError."""
    if split not in table()["splits"]:
        raise SimulationError(f"no split {split!r}", hint="one of " + ", ".join(table()["splits"]))
    plan = table()["splits"][split]
    left = {False: plan["benign_hours"] * scale * 3600, True: plan["attack_hours"] * scale * 3600}
    if attacks is not None:
        left[not attacks] = 0.0
    total = dict(left)
    drawn = {False: 0, True: 0}
    while max(left.values()) > 0:
        # The sort that is further behind its share comes next.
        is_attack = max(left, key=lambda sort: left[sort] / total[sort] if total[sort] else -1.0)
        spec = draw(split, is_attack, drawn[is_attack], plan["seed"] if seed is None else seed)
        drawn[is_attack] += 1
        left[is_attack] -= spec.duration_s
        yield spec


def draw(split: SplitName, is_attack: bool, number: int, seed: int) -> Spec:
    """Scenario `number` of one sort of a split."""
    sort = "attack" if is_attack else "benign"
    scenario_id = f"{split}-{seed}-{sort}-{number:05d}"
    own_seed = zlib.crc32(scenario_id.encode())
    rng = np.random.default_rng([seed, own_seed, 1])
    plan = table()["splits"][split]
    names = list(table()["themes"])
    weights = np.array([table()["themes"][name]["weight"] for name in names], dtype=np.float64)
    theme = str(rng.choice(names, p=weights / weights.sum()))
    # In turn, not at random: every profile and kind has its share however short the split is cut.
    profile = str(plan["profiles"][number % len(plan["profiles"])])
    kind = str(plan["kinds"][(number // len(plan["profiles"])) % len(plan["kinds"])]) if is_attack else "none"
    span = ATTACK_S if is_attack else BENIGN_S
    duration_s = _between(rng, SESSION_S if rng.random() < SHORT_SHARE else span)
    link = _link(rng, profile, table()["themes"][theme])
    ground, strays = _ground(rng, profile, theme)
    host_pps = float(np.exp(rng.uniform(np.log(15_000), np.log(250_000))))
    attacks: tuple[AttackSpec, ...] = ()
    if is_attack:
        attacks = _attacks(rng, kind, plan["rates"][table()["kinds"][kind]], duration_s, link.shared)
    return Spec(
        scenario_id, own_seed, kind, theme, profile, duration_s, link, ground, strays, attacks, host_pps
    )


def _between(rng: np.random.Generator, span: Sequence[float]) -> float:
    low, high = float(span[0]), float(span[1])
    if low > 0 and high > low:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))
    return float(rng.uniform(low, high))


def _range(span: list[float]) -> tuple[float, float]:
    low, high = span
    return low, high


def _link(rng: np.random.Generator, profile: str, theme: dict[str, float]) -> LinkSpec:
    given = table()["profiles"][profile]

    def value(span: list[float] | None, default: float = 0.0) -> float:
        return default if span is None else _between(rng, span)

    # A fading theme fades even where the profile by itself does not: an antenna can be shadowed anywhere.
    fades = max(given.get("fades", 0.0), 1.0 if "fades" in theme else 0.0) * theme.get("fades", 1.0)
    bursts = max(given.get("bursts", 0.0), 3.0 if "bursts" in theme else 0.0) * theme.get("bursts", 1.0)
    stalls = max(given.get("stalls", 0.0), 1.5 if "stalls" in theme else 0.0) * theme.get("stalls", 1.0)
    return LinkSpec(
        delay_ms=value(given.get("delay_ms")),
        jitter_ms=value(given.get("jitter_ms")),
        loss_pct=value(given.get("loss_pct")),
        rate_kbps=value(given.get("rate_kbps")),
        queue_ms=value(given.get("queue_ms"), 1000.0),
        router_pps=value(given.get("router_pps")),
        fades=fades * rng.uniform(0.5, 1.5),
        fade_s=_range(given.get("fade_s", [0.5, 10.0])),
        bursts=bursts * rng.uniform(0.5, 1.5),
        burst_ms=_range(given.get("burst_ms", [40.0, 600.0])),
        stalls=stalls * rng.uniform(0.5, 1.5),
        stall_s=_range(given.get("stall_s", [0.3, 6.0])),
        duplicate_pct=value(given.get("duplicate_pct")),
        reorder_pct=value(given.get("reorder_pct")),
        corrupt_pct=value(given.get("corrupt_pct")),
        fifo=bool(given.get("fifo")),
        shared=bool(given.get("shared")),
    )


def _ground(rng: np.random.Generator, profile: str, theme_name: str) -> tuple[GroundSpec, StraySpec]:
    hourly, theme = table()["events_per_hour"], table()["themes"][theme_name]

    def rate(name: str) -> float:
        return float(hourly[name] * theme.get(name, 1.0) * rng.uniform(0.5, 1.5))

    narrow = bool(table()["profiles"][profile].get("narrow"))
    tx_profile, tx_rate_hz = [
        ("intervals_320hz", 320.0),
        ("intervals_320hz", 320.0),
        ("streams_12hz", 326.6),
        ("default_4hz", 109.2),
        ("intervals_320hz", 50.0),
    ][int(rng.integers(5))]
    if narrow:
        tx_profile, tx_rate_hz = "intervals_320hz", float(rng.choice([10.0, 20.0]))
    if theme.get("rekeys") and rng.random() < 0.8:
        rekey_every_s = _between(rng, (1.0, 60.0))
    else:
        rekey_every_s = float(rng.choice([600.0, 600.0, 120.0]))
    ground = GroundSpec(
        tx_profile=tx_profile,
        tx_rate_hz=tx_rate_hz,
        missions=rate("missions"),
        transfers=rate("transfers"),
        modes=rate("modes"),
        joystick=0.0 if narrow else rate("joystick"),
        pauses=rate("pauses"),
        rtk=not narrow and bool(rng.random() < hourly["rtk_share"]),
        rekey_every_s=rekey_every_s,
        restarts=rate("restarts"),
        setup_s=_between(rng, (0.3, 20.0)) if rng.random() < 0.5 else 0.0,
        handshake_bytes=float(rng.choice([3_000, 6_000, 12_000, 20_000, 60_000, 300_000, 1_400_000])),
        shared_nic_pps=_between(rng, (0.5, 60.0)) if rng.random() < 0.25 else 0.0,
        interface_known=bool(rng.random() >= 0.08),
    )
    strays = StraySpec(
        scans=rate("scans"),
        misdirected=rate("misdirected"),
        foreign_sessions=rate("foreign_sessions"),
        auth_strays=rate("auth_strays"),
        stale=rate("stale"),
        coincide=float(theme.get("coincide", 0.0)),
    )
    return ground, strays


def _attacks(
    rng: np.random.Generator, kind: str, rates: list[float], duration_s: float, shared: bool
) -> tuple[AttackSpec, ...]:
    found: list[AttackSpec] = []
    start_s = min(_between(rng, QUIET_BETWEEN_S), duration_s / 3)
    while start_s < duration_s - 10.0:
        for_s = min(_between(rng, ATTACK_FOR_S), duration_s - start_s - 2.0)
        rate = float(rng.choice(rates))
        if kind == "ramp":
            for_s = min(_between(rng, (15.0, 90.0)), duration_s - start_s - 2.0)
        on_s = _between(rng, (0.1, 3.0)) if kind == "pulsing" else 0.0
        found.append(
            AttackSpec(
                kind,
                start_s,
                for_s,
                rate,
                size_bytes=int(rng.choice([16, 32, 64, 128, 256, 512, 1024, 1400])),
                through_link=shared and bool(rng.random() < 0.8),
                on_s=on_s,
                off_s=_between(rng, (0.2, 5.0)) if kind == "pulsing" else 0.0,
                variant=int(rng.integers(4)),
            )
        )
        start_s += for_s + _between(rng, QUIET_BETWEEN_S)
    return tuple(found)
