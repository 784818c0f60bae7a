"""Targets as target / measured / met, computed from a run's figures alone.

`met` is None where the run has no figure for it; `why` then says what is missing. On a busy machine a row is
computed all the same and carries the mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pqbase.documents import Json, number_of, number_or_none, numbers_of, part_of, rows_of, whole_of
from pqbase.stats import tail

TLS_SUITE: Final = "cs-mlkem768-aesgcm-mldsa65"
"""The one with the algorithms of the TLS handshake beside it."""
FAST_MS: Final = 1.0
FAST_LEAST_N: Final = 30
SLOW_CRYPTO_MS: Final = 5.0
SLOW_RATIO: Final = 1.2
FLOOR_RATIO: Final = 1.25
TLS_RATIO: Final = 0.5
TLS_PEERS: Final = {"OpenSSL": "tls_mutual", "AWS-LC": "awslc_mutual"}
"""Every one of them has to have run before the best of them is known."""
LINK_FAST_MS: Final = 0.6
LINK_LAB_MS: Final = 0.96
"""The slowest of the lab's own fast handshakes on the machine that the target was set on."""
LINK_P99_RATIO: Final = 2.0
LINK_LEAST_N: Final = 100
LINK_RATE_HZ: Final = 4_000.0
LINK_PROCESSORS: Final = 2
CPU_RATIO: Final = 1.25
MAX_RATE_CPU_RATIO: Final = 1.5
LATENCY_RATIO: Final = 1.1
OFFLOAD_US: Final = 50.0
BURST_FASTER: Final = 2.0
BURST_CPU: Final = 0.5
FORGED_HZ: Final = 20_000
FORGED_TOLERANCE: Final = 0.98
FLOOD_CPU_PCT: Final = 10.0
GAP_INTERVALS: Final = 2.0
REKEY_FIGURES: Final = (
    "rekeys", "lost_count", "largest_gap_ms", "send_interval_ms", "switches", "judged_switches",
    "judged_over_count", "judged_between", "judged_between_over_count",
)  # fmt: skip
ACCOUNTING_RATIO: Final = 1.01
JUDGED_SHARE: Final = 0.9
"""Of all switches, that the load generator must have kept its pace at: fewer decide nothing."""
REKEYS: Final = {"mlkem768": 1000, "mceliece8192128": 20, "epoch wrap": 300}
"""Rekeys that a run has to hold before it proves its target; a shorter one can only disprove it."""


def row(name: str, target: str, measured: str | None, met: bool | None, why: str = "") -> Json:
    """One row of the table."""
    return {"name": name, "target": target, "measured": measured, "met": met, "why": why}


def _missing(name: str, target: str, why: str) -> Json:
    return row(name, target, None, None, why)


def handshake_rows(shakes: Json) -> Iterator[Json]:
    """Suites with much crypto against their own primitives, all against their floor; the fast ones against
    1 ms and against TLS."""
    suites = rows_of(shakes, "suites")
    measured = [suite for suite in suites if "missing" not in suite]
    lost = [suite["suite_id"] for suite in suites if "missing" in suite]
    note = f"no figure for {len(lost)} suites, first {lost[0]}" if lost else ""
    name, target = "handshake, ≥ 5 ms of crypto", f"≤ {SLOW_RATIO} × Σ primitives"
    slow = [suite for suite in measured if number_of(suite, "crypto_median_ms") >= SLOW_CRYPTO_MS]
    if slow:
        ratios = [number_of(suite, "ratio_median") for suite in slow]
        worst = max(slow, key=lambda suite: number_of(suite, "ratio_median"))
        text = f"{min(ratios):.3f}–{max(ratios):.3f} ({len(slow)} suites, worst {worst['suite_id']})"
        yield row(name, target, text, max(ratios) <= SLOW_RATIO if not lost else None, note)
    else:
        yield _missing(name, target, note or "no suite of this kind was run")
    name, target = "handshake, ML-KEM with ML-DSA or Falcon", f"median ≤ {FAST_MS} ms, n ≥ {FAST_LEAST_N}"
    fast = [suite for suite in measured if is_fast(str(suite["suite_id"]))]
    if fast:
        walls = [number_of(suite, "wall_median_ms") for suite in fast]
        least = min(whole_of(suite, "n") for suite in fast)
        text = f"{min(walls):.2f}–{max(walls):.2f} ms ({len(fast)} suites, n ≥ {least})"
        woken_us = number_or_none(part_of(shakes, "wake_up"), "wake_up_us")
        text += f"; waking up once costs {woken_us:.0f} µs here" if woken_us is not None else ""
        met = max(walls) <= FAST_MS if least >= FAST_LEAST_N else None
        yield row(name, target, text, met, "" if met is not None else f"n is {least}, too few to judge")
    else:
        yield _missing(name, target, note or "no suite of this kind was run")
    yield floor_row("handshake, every suite", suites)
    ours = [suite for suite in fast if suite["suite_id"] == TLS_SUITE]
    tls = {name: part_of(shakes, key) for name, key in TLS_PEERS.items()}
    yield tls_row("handshake", "drone by PSK", ours[0] if ours else {"missing": "the suite was not run"}, tls)
    yield tls_row("handshake", "drone by signature", part_of(shakes, "signing_drone"), tls)
    link = rows_of(shakes, "link")
    yield floor_row("pqlink's handshake, every suite", link)
    yield link_fast_row(link, fast)
    yield tls_row("pqlink's handshake", "drone by PSK", part_of(shakes, "link_tls"), tls)
    yield link_rate_row(part_of(shakes, "link_rate"))


def link_fast_row(link: list[Json], lab: list[Json]) -> Json:
    """The target is of a machine on which the lab's own handshakes of these suites take up to `LINK_LAB_MS`:
    a slower one can meet it, and not miss it."""
    name = "pqlink's handshake, ML-KEM with ML-DSA or Falcon"
    target = f"median ≤ {LINK_FAST_MS} ms, p99 ≤ {LINK_P99_RATIO:.0f} × the median, n ≥ {LINK_LEAST_N}"
    fast = [suite for suite in link if is_fast(str(suite["suite_id"]))]
    lost = [suite for suite in fast if "missing" in suite]
    if not fast or lost:
        return _missing(name, target, str(lost[0]["missing"]) if lost else "no suite of this kind was run")
    walls = [number_of(suite, "wall_median_ms") for suite in fast]
    least = min(whole_of(suite, "n") for suite in fast)
    text = f"{min(walls):.2f}–{max(walls):.2f} ms ({len(fast)} suites, n ≥ {least})"
    tails = [tail(numbers_of(suite, "wall_ms"), 0.99) for suite in fast]
    known = [one / wall for one, wall in zip(tails, walls, strict=True) if one is not None]
    text += f", p99 {min(known):.2f}–{max(known):.2f} × the median" if known else ""
    slowest_ms = max((number_of(suite, "wall_median_ms") for suite in lab), default=LINK_LAB_MS)
    if max(walls) > LINK_FAST_MS and slowest_ms > LINK_LAB_MS:
        why = f"asked of a machine where the lab's own take up to {LINK_LAB_MS} ms; here {slowest_ms:.2f}"
        return row(name, target, text, None, why)
    if max(walls) > LINK_FAST_MS or (known and max(known) > LINK_P99_RATIO):
        return row(name, target, text, False)
    if least < LINK_LEAST_N or len(known) < len(fast):
        return row(name, target, text, None, f"n is {least}, too few to judge")
    return row(name, target, text, True)


def link_rate_row(found: Json) -> Json:
    """With more processors than two the target is another one."""
    name = "pqlink's handshakes a second, ML-KEM-768 + ML-DSA-65"
    target = f"≥ {LINK_RATE_HZ:,.0f}, both ends on two processors"
    if "missing" in found:
        return _missing(name, target, str(found["missing"]))
    rate_hz, count = number_of(found, "rate_hz"), whole_of(found, "processors")
    station_ms, drone_ms = number_of(found, "station_cpu_ms"), number_of(found, "drone_cpu_ms")
    text = (
        f"{rate_hz:,.0f} ({found['n']:,} in {number_of(found, 'seconds'):.1f} s); processor time of one: "
        f"{station_ms:.3f} ms at the station, {drone_ms:.3f} at the drone"
    )
    if count != LINK_PROCESSORS:
        return row(name, target, text, None, f"here are {count} processors")
    return row(name, target, text, rate_hz >= LINK_RATE_HZ)


def floor_row(name: str, suites: list[Json]) -> Json:
    """Every suite against its primitives sent over bare TCP. One without a figure leaves it not known, unless
    another misses."""
    target = f"≤ {FLOOR_RATIO} × same primitives, bare TCP"
    found = {
        str(suite["suite_id"]): number_of(suite, "floor_ratio") for suite in suites if "floor_ratio" in suite
    }
    reasons = [
        f"no figure for {suite['suite_id']}: {suite.get('floor_missing') or suite.get('missing')}"
        for suite in suites
        if "floor_ratio" not in suite
    ]
    why = f"{len(reasons)} of {len(suites)} without a figure, first: {reasons[0]}" if reasons else ""
    if not found:
        return _missing(name, target, why or "no suite was run")
    worst = max(found, key=lambda suite_id: found[suite_id])
    over = sum(ratio > FLOOR_RATIO for ratio in found.values())
    text = f"{min(found.values()):.3f}–{found[worst]:.3f} × ({len(found)} suites, worst {worst}"
    text += f"; {over} over {FLOOR_RATIO} ×)" if over else ")"
    return row(name, target, text, False if over else None if reasons else True, why)


def shown(value: float) -> str:
    """Three or more significant digits, no false ones."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"


def is_fast(suite_id: str) -> bool:
    """ML-KEM with ML-DSA or Falcon."""
    parts = suite_id.split("-")
    return parts[1].startswith("mlkem") and parts[3].startswith(("mldsa", "falcon"))


def tls_row(whose: str, what: str, ours: Json, tls: dict[str, Json]) -> Json:
    """The same algorithms: ML-KEM-768 and ML-DSA-65, AES-256-GCM, both ends authenticated. Where one of
    the peers did not run, the others can disprove the target and not prove it."""
    name = f"{whose}, ML-KEM-768 + ML-DSA-65, {what}"
    target = f"≤ {TLS_RATIO} × the best of {' and '.join(tls)} TLS 1.3, mutual authentication"
    walls = {
        peer: number_of(found, "wall_median_ms") for peer, found in tls.items() if "missing" not in found
    }
    why = "; ".join(f"{peer} did not run: {tls[peer]['missing']}" for peer in tls if peer not in walls)
    if "missing" in ours or not walls:
        return _missing(name, target, str(ours.get("missing") or why))
    mine, least_ms = number_of(ours, "wall_median_ms"), min(walls.values())
    against = ", ".join(f"{wall:.2f} ms ({peer})" for peer, wall in walls.items())
    text = f"{mine / least_ms:.2f} ×: {mine:.2f} ms against {against}"
    met = mine <= TLS_RATIO * least_ms
    return row(name, target, text, None if met and why else met, why)


def accounting_row(found: Json) -> Json:
    """What telling work from waiting adds to a wall: met by the interval, missed by it, else not known."""
    name, target = (
        f"accounting of a handshake, {found['suite_id']}",
        f"wall ≤ {ACCOUNTING_RATIO} × without it",
    )
    low, high = number_or_none(found, "wall_low_ratio"), number_or_none(found, "wall_high_ratio")
    if low is None or high is None:
        why = found.get("missing") or f"{found.get('rounds', 0)} rounds are too few for an interval"
        return _missing(name, target, str(why))
    text = (
        f"{found['wall_ratio']:.4f} × ({low:.4f} to {high:.4f}, "
        f"{found['rounds']} rounds of {found['per_round']}); "
        f"processor time of both ends {found['cpu_ratio']:.3f} ×"
    )
    met = True if high <= ACCOUNTING_RATIO else False if low > ACCOUNTING_RATIO else None
    return row(name, target, text, met, "" if met is not None else "the interval holds the target")


def forwarding_rows(loads: dict[str, dict[str, Json]]) -> Iterator[Json]:
    """CPU and latency against the bare forwarder, what offload adds, bursts against wireguard-go."""
    for size in (64, 1200):
        found = loads.get(f"320_hz_{size}b", {})
        for what, field, limit in (
            ("CPU a packet", "cpu_ratio_to_bare", CPU_RATIO),
            ("p50 latency", "p50_ratio_to_bare", LATENCY_RATIO),
            ("p99 latency", "p99_ratio_to_bare", LATENCY_RATIO),
        ):
            yield _to_bare(f"forwarding at 320 Hz, {size} B: {what}", found, field, limit)
        name, target = f"GRO/GSO at 320 Hz, {size} B: added to p50", f"≤ {OFFLOAD_US:.0f} µs"
        single, bare = (number_or_none(found.get(peer, {}), "p50_us") for peer in ("bare-single", "bare"))
        if single is None or bare is None:
            yield _missing(name, target, "a bare forwarder has no figure")
        else:
            yield row(name, target, f"{bare - single:+.1f} µs", bare - single <= OFFLOAD_US)
    name = "as fast as it goes, 1200 B: CPU a packet"
    yield _to_bare(name, loads.get("max_rate_1200b", {}), "cpu_ratio_to_bare", MAX_RATE_CPU_RATIO)
    yield from burst_rows(loads.get("max_rate_64b", {}))


def _to_bare(name: str, found: dict[str, Json], field: str, limit: float) -> Json:
    """The tunnel's ratio to the bare forwarder in one load."""
    target = f"≤ {limit} × bare"
    tunnel = found.get("tunnel", {"missing": "this load was not run"})
    value = number_or_none(tunnel, field)
    if value is None:
        return _missing(name, target, str(tunnel.get("missing") or "the bare forwarder has no figure"))
    return _ratio_row(name, target, value, limit, number_or_none(found.get("bare-again", {}), field))


def _ratio_row(name: str, target: str, value: float, limit: float, again: float | None) -> Json:
    """A ratio to the bare forwarder; `again` is that of a second bare forwarder, the same program."""
    if again is None:
        return row(name, target, f"{value:.2f} ×", None, "no second bare forwarder says what noise is here")
    text = f"{value:.2f} × (bare against itself {again:.2f} ×)"
    if max(again, 1 / again if again > 0 else limit + 1) > limit:
        return row(name, target, text, None, "two equal forwarders differ by more than the target here")
    return row(name, target, text, value <= limit)


def burst_rows(found: dict[str, Json]) -> Iterator[Json]:
    """Bursts of 32 × 64 B, as fast as the receiver acknowledges."""
    tunnel, other = (found.get(name, {}) for name in ("tunnel", "wireguard-go"))
    for what, field, limit, sign in (
        ("packets/s", "received_hz", BURST_FASTER, "≥"),
        ("CPU a packet", "cpu_us_per_packet", BURST_CPU, "≤"),
    ):
        name, target = f"bursts of 32 × 64 B: {what}", f"{sign} {limit} × wireguard-go"
        mine, theirs = number_or_none(tunnel, field), number_or_none(other, field)
        if not mine or not theirs:
            why = tunnel.get("missing") or other.get("missing") or "wireguard-go has no figure"
            yield _missing(name, target, str(why))
            continue
        ratio = mine / theirs
        met = ratio >= limit if sign == "≥" else ratio <= limit
        yield row(name, target, f"{ratio:.2f} × ({shown(mine)} against {shown(theirs)})", met)


def rekey_rows(rekey: Json) -> Iterator[Json]:
    """Each rekey run: packets lost and the largest gap."""
    runs = rows_of(rekey, "runs", [])
    if not runs:
        yield _missing(
            "rekey at 320 Hz", "0 lost, largest gap ≤ 2 × the interval", str(rekey.get("missing", "no run"))
        )
    for run in runs:
        name = f"rekey, {run.get('name', 'unnamed')}"
        target = "0 lost, largest gap ≤ 2 × the interval"
        absent = [key for key in REKEY_FIGURES if run.get(key) is None]
        if absent:
            yield _missing(name, target, str(run.get("missing") or f"the run has no {', '.join(absent)}"))
            continue
        yield _rekey_row(name, target, run)


def _rekey_row(name: str, target: str, run: Json) -> Json:
    """Met by all switches alone. A gap disproves only where the load generator kept its pace: a pause that it
    made itself comes out at the other end whatever carries it, and leaves the target not known."""
    interval_ms, switches = number_of(run, "send_interval_ms"), whole_of(run, "switches")
    largest_ms = number_of(run, "largest_gap_ms")
    text = f"{run['rekeys']} rekeys, {run['lost_count']} lost, "
    if run["lost_count"]:
        return row(name, target, f"{text}largest gap {largest_ms:.2f} ms", False)
    judged, gap_ms = whole_of(run, "judged_switches"), number_or_none(run, "largest_judged_gap_ms")
    if judged < JUDGED_SHARE * switches or gap_ms is None:
        text += f"largest gap {largest_ms:.2f} ms"
        why = f"the load generator kept its pace at {judged:,} of {switches:,} switches only"
        return row(name, target, text, None, why)
    intervals = gap_ms / interval_ms
    text += (
        f"largest gap {gap_ms:.2f} ms ({intervals:.2f} ×) at the {judged:,} of {switches:,} switches "
        f"where the load generator kept its pace, {largest_ms:.2f} ms at any"
    )
    if intervals > GAP_INTERVALS:
        over, over_between = run["judged_over_count"], run["judged_between_over_count"]
        why = (
            f"over {GAP_INTERVALS:.0f} × at {over:,} of {judged:,} switches; halfway between two switches, "
            f"where nobody rekeys, at {over_between:,} of {run['judged_between']:,}"
        )
        return row(name, target, text, False, why)
    if whole_of(run, "rekeys") < (asked := REKEYS.get(str(run["name"]), 0)):
        return row(name, target, text, None, f"{asked:,} rekeys are asked for: BENCH=full")
    if largest_ms > GAP_INTERVALS * interval_ms:
        return row(name, target, text, None, "the longest gap fell where the load generator paused as well")
    return row(name, target, text, True)


def flood_rows(flood: Json) -> Iterator[Json]:
    """20,000 forged datagrams a second, as the receiver counted them."""
    loss, cpu = "flood: legitimate 320 Hz", "flood: tunnel CPU at the receiver"
    if "missing" in flood:
        yield _missing(loss, "nothing lost", str(flood["missing"]))
        yield _missing(cpu, f"≤ {FLOOD_CPU_PCT:.0f} % of a core", str(flood["missing"]))
        return
    rate_hz = number_of(flood, "forged_at_receiver_hz")
    enough = rate_hz >= FORGED_HZ * FORGED_TOLERANCE
    why = "" if enough else f"only {rate_hz:,.0f} forged/s reached the receiver, not {FORGED_HZ:,}"
    counts = f"{flood['legitimate_lost_count']} of {flood['legitimate_sent_count']} lost"
    text = f"{counts} at {rate_hz:,.0f} forged/s"
    yield row(loss, "nothing lost", text, flood["legitimate_lost_count"] == 0 if enough else None, why)
    pct = number_of(flood, "receiver_cpu_pct")
    yield row(
        cpu,
        f"≤ {FLOOD_CPU_PCT:.0f} % of a core",
        f"{pct:.1f} %",
        pct <= FLOOD_CPU_PCT if enough else None,
        why,
    )


def loads_of(result: Json) -> dict[str, dict[str, Json]]:
    """Load → forwarder → figures."""
    loads = part_of(part_of(result, "forwarding"), "loads")
    by_load = {load: part_of(loads, load) for load in loads}
    return {load: {name: part_of(by, name) for name in by} for load, by in by_load.items()}


def rows(result: Json) -> list[Json]:
    """Every row of a run."""
    return [
        *handshake_rows(part_of(result, "handshakes")),
        *map(accounting_row, rows_of(result, "accounting")),
        *forwarding_rows(loads_of(result)),
        *rekey_rows(part_of(result, "rekey")),
        *flood_rows(part_of(result, "flood")),
    ]
