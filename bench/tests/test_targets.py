"""Each target is met, missed or unknown by the figures alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bench_kit import result, suite

from pqbench import targets

SUITE = "cs-mlkem512-aesgcm-mldsa44"
LINK_FAST = "pqlink's handshake, ML-KEM with ML-DSA or Falcon"
LINK_RATE = "pqlink's handshakes a second, ML-KEM-768 + ML-DSA-65"


def judged(run: dict[str, Any]) -> dict[str, Any]:
    return {row["name"]: row["met"] for row in targets.rows(run)}


def test_every_row_of_a_good_run_is_met() -> None:
    met = judged(result())
    assert len(met) == 24
    assert set(met.values()) == {True}


def _slow(run: dict[str, Any]) -> None:
    run["handshakes"]["suites"][1] = suite("cs-mlkem512-aesgcm-sphincs128s", 67.0, 55.0)


def _fast(run: dict[str, Any]) -> None:
    run["handshakes"]["suites"][0] = suite("cs-mlkem768-aesgcm-mldsa65", 1.1, 0.4)


def _tls(run: dict[str, Any]) -> None:
    run["handshakes"]["signing_drone"]["wall_median_ms"] = 1.11


def _best_tls(run: dict[str, Any]) -> None:
    run["handshakes"]["tls_mutual"]["wall_median_ms"] = 2.1


def _floor(run: dict[str, Any]) -> None:
    run["handshakes"]["suites"][1]["floor_ratio"] = 1.251


def _link_floor(run: dict[str, Any]) -> None:
    run["handshakes"]["link"][1]["floor_ratio"] = 1.251


def _link_fast(run: dict[str, Any]) -> None:
    run["handshakes"]["link"][0] = suite("cs-mlkem768-aesgcm-mldsa65", 0.61, 0.3, 100)


def _link_tail(run: dict[str, Any]) -> None:
    run["handshakes"]["link"][0]["wall_ms"][:3] = [0.81] * 3


def _link_tls(run: dict[str, Any]) -> None:
    run["handshakes"]["link_tls"]["wall_median_ms"] = 1.11


def _link_rate(run: dict[str, Any]) -> None:
    run["handshakes"]["link_rate"]["rate_hz"] = 3_999.0


def _cpu(run: dict[str, Any]) -> None:
    run["forwarding"]["loads"]["320_hz_64b"]["tunnel"]["cpu_ratio_to_bare"] = 1.26


def _p99(run: dict[str, Any]) -> None:
    run["forwarding"]["loads"]["320_hz_1200b"]["tunnel"]["p99_ratio_to_bare"] = 1.2


def _offload(run: dict[str, Any]) -> None:
    run["forwarding"]["loads"]["320_hz_64b"]["bare-single"]["p50_us"] = -1.0


def _max_rate(run: dict[str, Any]) -> None:
    run["forwarding"]["loads"]["max_rate_1200b"]["tunnel"]["cpu_ratio_to_bare"] = 1.51


def _bursts(run: dict[str, Any]) -> None:
    run["forwarding"]["loads"]["max_rate_64b"]["wireguard-go"]["received_hz"] = 351_000.0


def _lost(run: dict[str, Any]) -> None:
    run["rekey"]["runs"][0]["lost_count"] = 1


def _gap(run: dict[str, Any]) -> None:
    run["rekey"]["runs"][0] |= {"largest_judged_gap_ms": 6.3, "judged_over_count": 1}


def _flood_loss(run: dict[str, Any]) -> None:
    run["flood"]["legitimate_lost_count"] = 1


def _flood_cpu(run: dict[str, Any]) -> None:
    run["flood"]["receiver_cpu_pct"] = 10.1


def _accounting(run: dict[str, Any]) -> None:
    run["accounting"][0] |= {"wall_ratio": 1.02, "wall_low_ratio": 1.011, "wall_high_ratio": 1.03}


def test_an_interval_that_holds_the_target_decides_nothing() -> None:
    run = result()
    run["accounting"][0] |= {"wall_ratio": 1.008, "wall_low_ratio": 0.999, "wall_high_ratio": 1.012}
    assert judged(run)[f"accounting of a handshake, {SUITE}"] is None
    run["accounting"][0] = {"suite_id": SUITE, "missing": "an end died"}
    assert judged(run)[f"accounting of a handshake, {SUITE}"] is None


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (_accounting, f"accounting of a handshake, {SUITE}"),
        (_slow, "handshake, ≥ 5 ms of crypto"),
        (_fast, "handshake, ML-KEM with ML-DSA or Falcon"),
        (_tls, "handshake, ML-KEM-768 + ML-DSA-65, drone by signature"),
        (_best_tls, "handshake, ML-KEM-768 + ML-DSA-65, drone by signature"),
        (_floor, "handshake, every suite"),
        (_link_floor, "pqlink's handshake, every suite"),
        (_link_fast, LINK_FAST),
        (_link_tail, LINK_FAST),
        (_link_tls, "pqlink's handshake, ML-KEM-768 + ML-DSA-65, drone by PSK"),
        (_link_rate, LINK_RATE),
        (_cpu, "forwarding at 320 Hz, 64 B: CPU a packet"),
        (_p99, "forwarding at 320 Hz, 1200 B: p99 latency"),
        (_offload, "GRO/GSO at 320 Hz, 64 B: added to p50"),
        (_max_rate, "as fast as it goes, 1200 B: CPU a packet"),
        (_bursts, "bursts of 32 × 64 B: packets/s"),
        (_lost, "rekey, mlkem768"),
        (_gap, "rekey, mlkem768"),
        (_flood_loss, "flood: legitimate 320 Hz"),
        (_flood_cpu, "flood: tunnel CPU at the receiver"),
    ],
)
def test_one_spoilt_figure_misses_its_row_and_no_other(
    spoil: Callable[[dict[str, Any]], None], name: str
) -> None:
    run = result()
    spoil(run)
    assert [row for row, met in judged(run).items() if met is not True] == [name]
    assert judged(run)[name] is False


def test_what_is_missing_is_unknown_and_says_why() -> None:
    run = result()
    run["handshakes"]["tls_mutual"] = {"missing": "no ML-DSA here"}
    run["forwarding"]["loads"]["max_rate_64b"]["wireguard-go"] = {"missing": "does not start"}
    run["rekey"] = {"missing": "not in this image"}
    run["flood"] = {"missing": "the drone ended"}
    run["handshakes"]["suites"][0]["n"] = 29
    unknown = {row["name"]: row["why"] for row in targets.rows(run) if row["met"] is None}
    assert unknown == {
        "handshake, ML-KEM with ML-DSA or Falcon": "n is 29, too few to judge",
        "handshake, ML-KEM-768 + ML-DSA-65, drone by PSK": "OpenSSL did not run: no ML-DSA here",
        "handshake, ML-KEM-768 + ML-DSA-65, drone by signature": "OpenSSL did not run: no ML-DSA here",
        "pqlink's handshake, ML-KEM-768 + ML-DSA-65, drone by PSK": "OpenSSL did not run: no ML-DSA here",
        "bursts of 32 × 64 B: packets/s": "does not start",
        "bursts of 32 × 64 B: CPU a packet": "does not start",
        "rekey at 320 Hz": "not in this image",
        "flood: legitimate 320 Hz": "the drone ended",
        "flood: tunnel CPU at the receiver": "the drone ended",
    }


SIGNED = "handshake, ML-KEM-768 + ML-DSA-65, drone by signature"


def test_one_tls_alone_can_disprove_and_never_prove() -> None:
    run = result()
    run["handshakes"]["awslc_mutual"] = {"missing": "awslc does not build: no compiler"}
    row = next(row for row in targets.rows(run) if row["name"] == SIGNED)
    assert row["met"] is None
    assert row["why"] == "AWS-LC did not run: awslc does not build: no compiler"
    assert row["measured"] == "0.34 ×: 1.10 ms against 3.20 ms (OpenSSL)"
    run["handshakes"]["tls_mutual"]["wall_median_ms"] = 2.19
    row = next(row for row in targets.rows(run) if row["name"] == SIGNED)
    assert row["met"] is False


def test_a_slower_machine_than_the_targets_decides_nothing_against_the_link() -> None:
    run = result()
    _link_fast(run)
    run["handshakes"]["suites"][0] = suite("cs-mlkem768-aesgcm-mldsa65", 0.97, 0.4)
    row = next(row for row in targets.rows(run) if row["name"] == LINK_FAST)
    assert row["met"] is None and "here 0.97" in row["why"]
    run["handshakes"]["link"][0] = suite("cs-mlkem768-aesgcm-mldsa65", 0.59, 0.3, 100)
    assert judged(run)[LINK_FAST] is True


def test_few_handshakes_or_other_processors_leave_the_links_rows_open() -> None:
    run = result()
    run["handshakes"]["link"][0] = suite("cs-mlkem768-aesgcm-mldsa65", 0.4, 0.3, 99)
    run["handshakes"]["link_rate"]["processors"] = 8
    unknown = {row["name"]: row["why"] for row in targets.rows(run) if row["met"] is None}
    assert unknown == {LINK_FAST: "n is 99, too few to judge", LINK_RATE: "here are 8 processors"}
    run["handshakes"]["link"][0] = {"suite_id": "cs-mlkem768-aesgcm-mldsa65", "missing": "the station ended"}
    run["handshakes"]["link_rate"] = {"missing": "1 of 9 handshakes were refused"}
    unknown = {row["name"]: row["why"] for row in targets.rows(run) if row["met"] is None}
    assert unknown[LINK_FAST] == "the station ended"
    assert unknown[LINK_RATE] == "1 of 9 handshakes were refused"


def test_a_suite_without_a_floor_leaves_the_floors_row_open() -> None:
    run = result()
    lost = run["handshakes"]["suites"][1]
    del lost["floor_ratio"]
    lost["floor_missing"] = "bare_tcp is not in this image"
    row = next(row for row in targets.rows(run) if row["name"] == "handshake, every suite")
    assert row["met"] is None
    assert "1 of 2 without a figure" in row["why"] and "bare_tcp is not in this image" in row["why"]
    run["handshakes"]["suites"][0]["floor_ratio"] = 1.3
    assert judged(run)["handshake, every suite"] is False


def test_waking_up_stands_beside_the_fast_handshakes() -> None:
    row = next(row for row in targets.rows(result()) if row["name"].endswith("ML-DSA or Falcon"))
    assert row["measured"].endswith("waking up once costs 23 µs here")


def test_a_short_rekey_run_disproves_and_never_proves() -> None:
    run = result()
    run["rekey"]["runs"][0]["rekeys"] = 999
    assert judged(run)["rekey, mlkem768"] is None
    run["rekey"]["runs"][0]["lost_count"] = 1
    assert judged(run)["rekey, mlkem768"] is False


def test_a_missed_gap_says_what_the_same_look_finds_where_nobody_rekeys() -> None:
    run = result()
    run["rekey"]["runs"][0] |= {"largest_judged_gap_ms": 6.6, "judged_over_count": 4}
    row = next(row for row in targets.rows(run) if row["name"] == "rekey, mlkem768")
    assert row["met"] is False
    assert "at 4 of 1,990 switches" in row["why"] and "at 3 of 1,985" in row["why"]


def test_a_gap_that_the_load_generator_made_is_no_gap_of_the_tunnel() -> None:
    run = result()
    assert judged(run)["rekey, mlkem768"] is True
    run["rekey"]["runs"][0]["largest_gap_ms"] = 40.0
    row = next(row for row in targets.rows(run) if row["name"] == "rekey, mlkem768")
    assert row["met"] is None and "paused as well" in row["why"]
    run["rekey"]["runs"][0]["judged_switches"] = 1790
    row = next(row for row in targets.rows(run) if row["name"] == "rekey, mlkem768")
    assert row["met"] is None and "1,790 of 2,000" in row["why"]


@pytest.mark.parametrize("again", [1.2, 0.8])
def test_where_equal_forwarders_differ_nothing_is_told(again: float) -> None:
    run = result()
    found = run["forwarding"]["loads"]["320_hz_64b"]
    found["bare-again"]["p99_ratio_to_bare"] = again
    found["tunnel"]["p99_ratio_to_bare"] = 1.15
    rows = {row["name"]: row for row in targets.rows(run)}
    assert rows["forwarding at 320 Hz, 64 B: p99 latency"]["met"] is None
    assert "equal forwarders" in rows["forwarding at 320 Hz, 64 B: p99 latency"]["why"]
    assert rows["forwarding at 320 Hz, 64 B: p50 latency"]["met"] is True


def test_without_a_second_bare_forwarder_no_ratio_is_judged() -> None:
    run = result()
    run["forwarding"]["loads"]["320_hz_1200b"]["bare-again"] = {"missing": "its port was taken"}
    assert judged(run)["forwarding at 320 Hz, 1200 B: CPU a packet"] is None


def test_a_weak_flood_proves_nothing() -> None:
    run = result()
    run["flood"]["forged_at_receiver_hz"] = 15_000.0
    met = judged(run)
    assert met["flood: legitimate 320 Hz"] is None
    assert met["flood: tunnel CPU at the receiver"] is None


def test_a_suite_without_figures_leaves_the_slow_row_open() -> None:
    run = result()
    run["handshakes"]["suites"].append({"suite_id": "cs-hqc128-aesgcm-mldsa44", "missing": "it broke"})
    assert judged(run)["handshake, ≥ 5 ms of crypto"] is None
