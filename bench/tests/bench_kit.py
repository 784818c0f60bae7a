"""A small run as the bench makes it, for the tests of targets and tables."""

from __future__ import annotations

import copy
from typing import Any

_LOAD = {
    "rounds": 5, "datagrams_count": 3200, "sent_count": 3200, "lost_count": 0, "received_hz": 320.0,
    "cpu_us_per_packet": 20.0, "machine_cpu_us_per_packet": 90.0, "p50_us": 50.0, "p99_us": 200.0,
    "cpu_ratio_to_bare": 1.2, "p50_ratio_to_bare": 1.05, "p99_ratio_to_bare": 1.0,
}  # fmt: skip
_AGAIN = {**_LOAD, "cpu_ratio_to_bare": 0.98, "p50_ratio_to_bare": 1.01, "p99_ratio_to_bare": 1.04}


def suite(suite_id: str, wall_ms: float, crypto_ms: float, n: int = 30) -> dict[str, Any]:
    return {
        "suite_id": suite_id,
        "n": n,
        "failed_count": 0,
        "wall_ms": [wall_ms] * n,
        "wall_median_ms": wall_ms,
        "wall_p95_ms": wall_ms,
        "crypto_median_ms": crypto_ms,
        "ratio_median": wall_ms / crypto_ms,
        "keygen_median_ms": 0.1,
        "rest_median_ms": wall_ms - 0.1,
        "floor_median_ms": wall_ms / 1.2,
        "floor_ratio": 1.2,
    }


def floor(kem: str, sig: str, wall_ms: float) -> dict[str, Any]:
    return {
        "kem": kem,
        "sig": sig,
        "signs": "server",
        "n": 30,
        "wall_median_ms": wall_ms,
        "wall_p95_ms": wall_ms,
        "crypto_median_ms": wall_ms - 0.2,
        "ratio_median": wall_ms / (wall_ms - 0.2),
        "keygen_median_ms": 0.1,
        "rest_median_ms": wall_ms - 0.1,
    }


def result() -> dict[str, Any]:
    """Every target met, machine quiet."""
    slow = {**_LOAD, "received_hz": 300_000.0, "cpu_us_per_packet": 2.0}
    fast = {**_LOAD, "received_hz": 700_000.0, "cpu_us_per_packet": 0.8}
    at_320 = {
        "tunnel": dict(_LOAD),
        "bare": dict(_LOAD),
        "bare-again": dict(_AGAIN),
        "bare-single": {**_LOAD, "p50_us": 45.0},
    }
    run = {
        "name": "mlkem768",
        "rekeys": 1000,
        "lost_count": 0,
        "largest_gap_ms": 6.0,
        "send_interval_ms": 3.125,
        "switches": 2000,
        "judged_switches": 1990,
        "judged_over_count": 0,
        "largest_judged_gap_ms": 5.0,
        "judged_between": 1985,
        "judged_between_over_count": 3,
    }
    return {
        "utc": "2026-01-02T03:04:05Z",
        "mode": "default",
        "facts": {"cpu_count": 2, "cpu_model": "some CPU", "kernel": "6.1"},
        "machine": {
            "load_average_before": [0.1, 0.1, 0.1],
            "load_average_after": [1.0, 0.5, 0.2],
            "foreign_cpu_pct": 1.0,
            "steal_pct": 0.0,
            "is_busy": False,
            "reasons": [],
            "duration_s": 300.0,
        },
        "handshakes": {
            "wake_up": {"n": 1584, "wake_up_us": 23.4, "asleep_us": 31.0, "awake_us": 7.6},
            "suites": [
                suite("cs-mlkem768-aesgcm-mldsa65", 0.8, 0.4),
                suite("cs-mlkem512-aesgcm-sphincs128s", 60.0, 55.0, 10),
            ],
            "floors": [
                floor("ML-KEM-768", "ML-DSA-65", 0.67),
                floor("ML-KEM-512", "SPHINCS+-SHA2-128s-simple", 50.0),
            ],
            "link": [
                suite("cs-mlkem768-aesgcm-mldsa65", 0.4, 0.3, 100),
                suite("cs-mlkem512-aesgcm-sphincs128s", 56.0, 55.0, 10),
            ],
            "link_tls": suite("cs-mlkem768-aesgcm-mldsa65", 0.4, 0.3, 200),
            "link_rate": {
                "n": 12_300,
                "workers": 4,
                "processors": 2,
                "seconds": 3.0,
                "rate_hz": 4_100.0,
                "station_cpu_ms": 0.3,
                "drone_cpu_ms": 0.2,
            },
            "signing_drone": suite("cs-mlkem768-aesgcm-mldsa65", 1.1, 0.7, 200),
            "signing_floor": floor("ML-KEM-768", "ML-DSA-65", 0.92),
            "tls_mutual": {"n": 200, "wall_median_ms": 3.2, "wall_p95_ms": 3.5},
            "awslc_mutual": {"n": 200, "wall_median_ms": 2.2, "wall_p95_ms": 2.5},
            "tls_server": {"n": 200, "wall_median_ms": 1.0, "wall_p95_ms": 1.5},
            "awslc_server": {"n": 200, "wall_median_ms": 0.9, "wall_p95_ms": 1.5},
            "rosenpass": {"missing": "rosenpass does not build: no compiler"},
        },
        "accounting": [
            {
                "suite_id": "cs-mlkem512-aesgcm-mldsa44",
                "rounds": 200,
                "per_round": 20,
                "wall_ratio": 1.003,
                "wall_low_ratio": 0.998,
                "wall_high_ratio": 1.006,
                "cpu_ratio": 1.005,
                "cpu_low_ratio": 1.001,
                "cpu_high_ratio": 1.009,
            }
        ],
        "forwarding": {
            "missing": {"boringtun": "boringtun needs /dev/net/tun, which is not here"},
            "loads": {
                "320_hz_64b": at_320,
                "320_hz_1200b": copy.deepcopy(at_320),
                "max_rate_64b": {"tunnel": fast, "wireguard-go": slow},
                "max_rate_1200b": {
                    "tunnel": fast | {"cpu_ratio_to_bare": 1.4},
                    "bare-again": fast | {"cpu_ratio_to_bare": 1.02},
                },
            },
        },
        "rekey": {"runs": [run]},
        "flood": {
            "forged_at_receiver_hz": 19_990.0,
            "legitimate_lost_count": 0,
            "legitimate_sent_count": 1600,
            "receiver_cpu_pct": 5.0,
        },
    }
