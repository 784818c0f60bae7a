"""Reading telemetry back: nothing in gives nothing out."""

from __future__ import annotations

from pqtelemetry.line import Sample, encode
from pqtelemetry.slice import values

LINES = [
    encode(
        Sample("pq_cpu", {"system_pct": float(k), "system_busy_ms": 100 * k}, (("host", "drone"),)), k * 10
    )
    for k in range(1, 11)
] + [encode(Sample("pq_cpu", {"steal_pct": 99.0}, (("host", "gcs"),)), 55)]


def test_values_only_where_the_field_is() -> None:
    assert values(LINES, "pq_cpu", "steal_pct") == [(55, 99.0)]
    assert values(LINES, "pq_cpu", "steal_pct", tags={"host": "drone"}) == []
    assert values(LINES, "pq_mem", "rss_bytes") == []
    assert values(LINES, "pq_cp", "system_pct") == []


def test_booleans_and_text_are_no_numbers() -> None:
    lines = [encode(Sample("pq_sensor", {"available": False, "reason": "none"}), 1)]
    assert values(lines, "pq_sensor", "available") == []
    assert values(lines, "pq_sensor", "reason") == []
