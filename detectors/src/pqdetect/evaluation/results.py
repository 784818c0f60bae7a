"""The shape of results.json and of its parts, as an evaluation writes it and its tables and figures read it.

A `value` that is None has its `reason` beside it, and neither bounds nor counts of hits.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from pqbase.documents import Json


class Share(TypedDict):
    """A proportion of `n` with its Wilson interval."""

    value: float | None
    low: NotRequired[float]
    high: NotRequired[float]
    hits: NotRequired[int]
    n: int
    reason: NotRequired[str]


class Rate(TypedDict):
    """Events an hour with their exact Poisson bounds."""

    value: float | None
    low: NotRequired[float]
    high: NotRequired[float]
    count: int
    hours: float
    reason: NotRequired[str]


class Spread(TypedDict):
    """A median of `n` values with its interval, or their range: `what` says which."""

    value: float | None
    low: NotRequired[float]
    high: NotRequired[float]
    max: NotRequired[float]
    n: int
    what: NotRequired[str]
    reason: NotRequired[str]


class Delay(TypedDict):
    """Quantiles over `n` episodes, s; None where one lies among the missed."""

    p50: float | None
    p90: float | None
    p95: float | None
    n: int


class Group(TypedDict):
    """Episodes of one kind, rate or link profile."""

    held_out: bool
    recall: Share
    recall_loss_30pct: Share
    median_delay_s: float | None


class Degraded(TypedDict):
    """DEGRADED by stretches and by windows."""

    recall: Share
    recall_long: Share
    precision: Share
    window_recall: Share
    window_precision: Share


class DegradedPoint(TypedDict):
    """DEGRADED at one level of its alarm."""

    level: float
    recall: float | None
    recall_long: float | None
    precision: float | None


class Equal(TypedDict):
    """A detector at the level that gives all of them the same false alarms."""

    at_most_per_h: float
    false_alarms_per_h: Rate
    recall_visible: Share
    recall_loss_30pct: Share
    delay_s: Delay


class CurvePoint(TypedDict):
    """ATTACK at one level of its alarm."""

    level: float
    false_alarms_per_h: float | None
    recall_visible: float | None
    recall_loss_30pct: float | None
    median_delay_s: float | None


class Method(TypedDict):
    """One detector on one set of recordings, at the rules of its card."""

    window_auroc: float | None
    window_auroc_degraded: float | None
    recall_visible: Share
    recall_loss_30pct: Share
    recall_held_out: Share
    recall_held_out_loss_30pct: Share
    false_alarms_per_h: Rate
    alarm_time_share: float
    delay_s: Delay
    delay_loss_30pct_s: Delay
    delay_cdf: list[tuple[float, float]]
    by_kind: dict[str, Group]
    by_rate_pps: dict[str, Group]
    by_profile: dict[str, Group]
    degraded: Degraded
    equal_alarms: Equal
    curve: list[CurvePoint]


class AttackRow(TypedDict):
    """Episodes of one kind, link and rate in recordings of the lab; delays by detector."""

    kind: str
    profile: str
    rate_pps: float
    episodes: int
    loss: list[float]
    loss_reason: str | None
    delays_s: dict[str, list[float | None]]


class QuietRow(TypedDict):
    """Recordings of one theme without a visible attack; false alarms by detector."""

    kind: str
    recordings: int
    minutes: float
    false: dict[str, int]


class DistanceRow(TypedDict):
    """`pqdetect.compare.Distance`."""

    condition: str
    feature: str
    ks: float | None
    lab_median: float | None
    sim_median: float | None
    lab_p95: float | None
    sim_p95: float | None
    lab_count: int
    sim_count: int


class Part(TypedDict):
    """One set of recordings; what is NotRequired belongs to those of the lab."""

    recordings_count: int
    hours: float
    attack_free_hours: float
    episodes_visible: int
    episodes_loss_30pct: int
    methods: dict[str, Method]
    attacks: NotRequired[list[AttackRow]]
    quiet: NotRequired[list[QuietRow]]
    simulator: NotRequired[list[DistanceRow]]
    recordings: NotRequired[list[dict[str, str]]]


class Gap(TypedDict):
    """Recall of the best detector minus that of another."""

    difference: float | None
    reason: NotRequired[str]
    se: float | None
    in_se: float | None
    scenarios: int


class Winner(TypedDict):
    """Who finds most at equal false alarms, and who becomes the default."""

    best: str
    against: dict[str, Gap]
    not_distinguishable: list[str]
    default: str
    rule: str


class OverSeeds(TypedDict):
    """A figure over the seeds of one model."""

    n: int
    mean: float | None
    se: float | None
    values: list[float]


class Seeds(TypedDict, total=False):
    """The seeds of a training run, or the reason why there are none."""

    value: None
    reason: str
    what: str
    hours: float
    kinds: list[str]
    models: dict[str, OverSeeds]
    best: str
    best_ahead_in_se: dict[str, float | None]


class CopiesRow(TypedDict):
    """False alarms by detector on the same attack-free flights, that share of the packets doubled."""

    share_pct: float | None
    flights: int
    false_alarms_per_h: dict[str, Rate]


class Attack(TypedDict):
    """The first episode of a condition."""

    kind: str
    rate_pps: float
    for_s: object
    path: object


class Condition(TypedDict):
    """One condition of a campaign; what is NotRequired belongs to those with a detector."""

    condition: str
    detector: str
    n: int
    attack: Attack | None
    others_cpu_ms_max: float | None
    others_n: int
    model: NotRequired[str]
    history: NotRequired[str]
    cpu_pct: NotRequired[Spread]
    rss_mb: NotRequired[Spread]
    latency_max_ms: NotRequired[Spread]
    due: NotRequired[int]
    verdicts: NotRequired[int]
    late: NotRequired[int]
    false_alarms: NotRequired[Rate]
    found: NotRequired[Share]
    delay_s: NotRequired[Spread]
    canaries: NotRequired[Share]
    canary_delay_s: NotRequired[Spread]


class Campaign(TypedDict):
    """A bundle of a campaign with detectors."""

    run_id: str
    scenario: str
    ring: str | None
    loadavg: list[float]
    cells: dict[str, int]
    conditions: list[Condition]


class Lab(TypedDict):
    """Campaigns of the lab."""

    bundles: list[Campaign]


class Target(TypedDict):
    """One target of the project for the default detector."""

    what: str
    target: str
    value: float | None
    met: bool | None
    model: str
    n: int | None


class Shuffled(TypedDict, total=False):
    """What shuffled labels left to learn, one value a seed."""

    auroc: list[float | None] | None
    reason: str
    model: str
    rounds: int


class Provenance(TypedDict):
    """What the figures were made of: checksums by name."""

    splits_sha256: str
    scale: float
    data_sha256: str
    models: dict[str, str]
    libraries: dict[str, str | None]


class Results(TypedDict):
    """results.json."""

    schema: str
    provenance: Provenance
    definitions: Json
    sets: dict[str, Part]
    winner: Winner
    seeds: Seeds
    cards: dict[str, Json]
    shuffled_labels: Shuffled
    degraded_curve: NotRequired[dict[str, list[DegradedPoint]]]
    copies: NotRequired[list[CopiesRow]]
    lab: NotRequired[Lab]
    targets: NotRequired[list[Target]]
    targets_live: NotRequired[list[Target]]
