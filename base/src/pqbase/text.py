"""Text that several packages write alike: UTC, JSON with one spelling, UTF-8 on every platform's pipes."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime


def utc_text(realtime_ns: int) -> str:
    """ISO 8601 UTC with seconds, as it stands in documents: 2026-01-02T03:04:05Z."""
    return f"{_utc(realtime_ns):%Y-%m-%dT%H:%M:%SZ}"


def utc_text_ms(realtime_ns: int) -> str:
    """The same with milliseconds: 2026-01-02T03:04:05.678Z."""
    # by way of a float, as every record so far was made: `verify` makes them again and compares
    text = datetime.fromtimestamp(realtime_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def utc_basic(realtime_ns: int) -> str:
    """ISO 8601 basic UTC, as it starts a run id: 20260102T030405Z."""
    return f"{_utc(realtime_ns):%Y%m%dT%H%M%SZ}"


def utc_page(realtime_ns: int) -> str:
    """UTC as pages print it, without the zone's name: 2026-01-02 03:04:05."""
    return f"{_utc(realtime_ns):%Y-%m-%d %H:%M:%S}"


def _utc(realtime_ns: int) -> datetime:
    return datetime.fromtimestamp(realtime_ns // 10**9, UTC)


def canonical_json(value: object) -> bytes:
    """One spelling for equal values: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def speak_utf8() -> None:
    """Windows gives a pipe the machine's code page, which turns `…` into another character or an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
