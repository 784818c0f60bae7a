"""The headline claims of the published reports, each computed again from the published tables.

results/reference/published-claims.csv holds what was printed, with its place; the functions here say what the
tables give. Nothing is measured: rate × time, sums against wall clocks, energy = power × time, medians of the
table behind a figure. A claim that the tables cannot decide is said to be open, never to follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.resources.abc import Traversable

from pqevidence.analysis.stats import mean, median
from pqevidence.analysis.table import read_rows, to_float

CLAIMS_FILE = "published-claims.csv"
FOLLOWS, FAILS, OPEN = "follows", "does not follow", "open"
RUN_STARTS_S = (14 * 3600 + 16 * 60 + 27, 15 * 3600 + 13)
ENERGY_TOLERANCE_PCT = 5.0


@dataclass(frozen=True)
class Judged:
    """One claim with its verdict; observed: what the data give, in words."""

    id: str
    source: str
    section: str
    claim: str
    printed: str
    unit: str
    verdict: str
    observed: str


class Published:
    """The published tables that the claims speak of."""

    def __init__(self, folder: Traversable) -> None:
        self.folder = folder

    @cached_property
    def suites(self) -> list[dict[str, str]]:
        """The per-suite table behind pqc-mav-2026-02."""
        return read_rows(self.folder / "published-72-suites.csv")

    def numbers(self, column: str, kem: str = "", ok: str = "") -> list[float]:
        """A column of the suites whose KEM begins so and, with `ok`, whose scenario succeeded."""
        chosen = [
            r
            for r in self.suites
            if r["kem"].startswith(kem) and (not ok or r[f"{ok}_handshake_ok"] == "True")
        ]
        return [v for r in chosen if (v := to_float(r[column])) is not None]

    @cached_property
    def energy(self) -> list[dict[str, str]]:
        """Time, power and energy of every operation of power-2026-01."""
        return read_rows(self.folder / "power-2026-01.csv")

    @cached_property
    def smoke(self) -> list[dict[str, str]]:
        """Iterations of suites-2026-01."""
        return read_rows(self.folder / "suites-2026-01-detail.csv")


Answer = tuple[str, str]
Check = Callable[[Published, str], Answer]


def _agrees(printed: str, value: float) -> bool:
    """Equal to half a unit of the printed value's last digit (and a little for the table's own rounding)."""
    digits = len(printed.partition(".")[2])
    return abs(value - float(printed)) <= 0.55 * 10.0**-digits


def _equals(compute: Callable[[Published], float | None], what: str) -> Check:
    def check(data: Published, printed: str) -> Answer:
        value = compute(data)
        if value is None:
            return OPEN, f"{what}: the table has no value"
        return (FOLLOWS if _agrees(printed, value) else FAILS), f"{what}: {value:.6g}"

    return check


def _passed(scenario: str) -> Check:
    return _equals(lambda d: float(len(d.numbers(f"{scenario}_handshake_ms", ok=scenario))), "table counts")


def _median(column: str, kem: str = "") -> Check:
    return _equals(lambda d: median(d.numbers(column, kem)), "median of the table")


def _session_packets(data: Published, printed: str) -> Answer:
    sent = data.numbers("base_pkts_sent")
    most = max(sent)
    verdict = FOLLOWS if most >= float(printed) else FAILS
    return verdict, f"110 s × 320 Hz = 35200; sent at most {most:.0f}, median {median(sent):.0f}"


def _session_wall(_: Published, printed: str) -> Answer:
    between = RUN_STARTS_S[1] - RUN_STARTS_S[0]
    verdict = FOLLOWS if float(printed) <= between else FAILS
    return verdict, f"{between} s lie between the starts: {between / 72:.1f} s a suite"


def _ratio(data: Published) -> float | None:
    slow, fast = (median(data.numbers("base_handshake_ms", kem)) for kem in ("Classic", "ML-KEM"))
    return slow / fast if slow and fast else None


def _longest(data: Published, printed: str) -> Answer:
    row = max(data.suites, key=lambda r: to_float(r["base_handshake_ms"]) or 0.0)
    if row["base_handshake_ok"] != "True":
        return FAILS, f"{row['suite_id']} did not succeed: its time is a timeout and no handshake"
    return (FOLLOWS if _agrees(printed, float(row["base_handshake_ms"])) else FAILS), row["base_handshake_ms"]


def _share(us: float) -> Check:
    return _equals(lambda _: us * 1e-6 * 320 * 100, f"{us} µs × 320 Hz, in % of a second")


def _phi(ms: float) -> Check:
    return _equals(lambda _: ms / (60_000 + ms) * 100, f"{ms} / (60,000 + {ms})")


def _power(data: Published, printed: str) -> Answer:
    zero = sum(1 for v in data.numbers("base_power_avg_w") if v == 0.0)
    if zero:
        return FAILS, f"{zero} of {len(data.suites)} suites read exactly 0 W: a sensor that did not answer"
    return FOLLOWS, "every suite has a reading"


def _loss(data: Published, _: str) -> Answer:
    sent, got = (sum(data.numbers(f"base_pkts_{way}")) for way in ("sent", "recv"))
    return (
        OPEN,
        f"one end sent {sent:.0f} and received {got:.0f}; what the other end received is not in the table",
    )


def _overhead(data: Published, printed: str) -> Answer:
    base, beside = (median(data.numbers(f"{s}_handshake_ms", "ML-KEM")) for s in ("base", "xgb"))
    if base is None or beside is None:
        return OPEN, "the table has no value"
    effect = (beside / base - 1) * 100
    if not _agrees(printed, effect):
        return FAILS, f"medians of the table give {effect:.1f} %"
    return OPEN, f"medians give {effect:.1f} %; one run a scenario, no repetition: noise is as good a reason"


def _suite_energy(data: Published, printed: str) -> Answer:
    power = mean([float(r["power_mean_w"]) for r in data.smoke])
    joules = mean([float(r["energy_j"]) for r in data.smoke])
    if power is None or joules is None:
        return OPEN, "the table has no value"
    verdict = FOLLOWS if abs(power * 20 / float(printed) - 1) <= ENERGY_TOLERANCE_PCT / 100 else FAILS
    return verdict, f"{power:.2f} W × 20 s = {power * 20:.1f} J; {joules:.1f} J are {joules / power:.1f} s"


def _suite_network(data: Published, printed: str) -> Answer:
    rest = [float(r["handshake_total_ms"]) - float(r["handshake_gcs_ms"]) for r in data.smoke]
    return (
        FOLLOWS if max(rest) >= float(printed) else FAILS
    ), f"total − ground is at most {max(rest):.1f} ms"


def _suite_handshake(data: Published) -> float | None:
    return mean([float(r["handshake_total_ms"]) for r in data.smoke])


def _suite_packets(_: Published, printed: str) -> Answer:
    size = 5.92e6 * 20 / 8 / float(printed)
    return (FOLLOWS if 64 <= size <= 1500 else FAILS), f"5.92 Mbit/s × 20 s in them: {size:.0f} bytes each"


def _suite_samples(_: Published, printed: str) -> Answer:
    verdict = FOLLOWS if abs(float(printed) / 20_000 - 1) <= ENERGY_TOLERANCE_PCT / 100 else FAILS
    return verdict, f"1 kHz × 20 s = 20000; {printed} are {float(printed) / 1000:.0f} s"


def _energy_product(data: Published, _: str) -> Answer:
    off = {
        f"{r['algorithm']} {r['operation']}": abs(
            float(r["time_ms"]) * float(r["power_w"]) * 1e3 / float(r["energy_uj"]) - 1
        )
        * 100
        for r in data.energy
        if r["time_ms"] and r["power_w"] and r["energy_uj"]
    }
    worst = max(off, key=lambda name: off[name])
    verdict = FOLLOWS if off[worst] <= ENERGY_TOLERANCE_PCT else FAILS
    return verdict, f"{len(off)} operations, at most {off[worst]:.1f} % off ({worst})"


def _most(column: str, algorithm: str = "", operation: str = "") -> Check:
    def check(data: Published, printed: str) -> Answer:
        found = {
            f"{r['algorithm']} {r['operation']}": float(r[column])
            for r in data.energy
            if r["algorithm"].startswith(algorithm) and r["operation"].startswith(operation) and r[column]
        }
        worst = max(found, key=lambda name: found[name])
        return (FOLLOWS if found[worst] <= float(printed) else FAILS), f"{worst}: {found[worst]:.6g}"

    return check


CHECKS: dict[str, Check] = {
    "session-packets": _session_packets,
    "session-wall": _session_wall,
    "suites-passed-baseline": _passed("base"),
    "suites-passed-xgb": _passed("xgb"),
    "suites-passed-tst": _passed("tst"),
    "median-ml-kem": _median("base_handshake_ms", "ML-KEM"),
    "median-hqc": _median("base_handshake_ms", "HQC"),
    "median-mceliece": _median("base_handshake_ms", "Classic"),
    "mceliece-ratio": _equals(_ratio, "ratio of the medians"),
    "max-handshake": _longest,
    "median-baseline": _median("base_handshake_ms"),
    "median-xgb": _median("xgb_handshake_ms"),
    "median-tst": _median("tst_handshake_ms"),
    "cpu-baseline": _equals(lambda d: mean(d.numbers("base_drone_cpu_avg_pct")), "mean of the table"),
    "cpu-tst": _equals(lambda d: mean(d.numbers("tst_drone_cpu_avg_pct")), "mean of the table"),
    "aead-cpu": _share(228.3),
    "aead-difference": _share(182.0),
    "phi-512": _phi(12.80),
    "phi-768": _phi(12.71),
    "phi-1024": _phi(12.75),
    "detector-window": _equals(lambda _: 320 * 0.6, "320 Hz × 0.6 s"),
    "power-sensor": _power,
    "loss": _loss,
    "xgb-overhead": _overhead,
    "suite-energy": _suite_energy,
    "suite-network": _suite_network,
    "suite-handshake": _equals(_suite_handshake, "mean of the iterations"),
    "suite-packets": _suite_packets,
    "suite-samples": _suite_samples,
    "energy-product": _energy_product,
    "kem-energy": _most("energy_uj", "ML-KEM"),
    "mceliece-energy": _most("energy_uj", "Classic", "keygen"),
    "power-range": _most("power_w"),
}


def judge(folder: Traversable) -> list[Judged]:
    """Every claim of the file, in its order. Raises KeyError for a claim that nothing computes."""
    data = Published(folder)
    found = []
    for row in read_rows(folder / CLAIMS_FILE):
        verdict, observed = CHECKS[row["id"]](data, row["printed"])
        found.append(Judged(**row, verdict=verdict, observed=observed))
    return found
