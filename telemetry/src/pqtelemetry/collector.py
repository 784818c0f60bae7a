"""One tick: ask the readers that are due, merge their fields into series, explain every gap.

Sans-IO apart from what the readers themselves read: time comes in, samples come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.line import FieldValue, Sample, Tags, plain_text
from pqtelemetry.readers.base import Instant, Reader

REPORT_PERIOD_S = 60.0


class Collector:
    """Readers of one host with the tags every series of that host carries."""

    def __init__(self, readers: Sequence[Reader], common_tags: Tags, rate_hz: float) -> None:
        names = [reader.name for reader in readers]
        if len(set(names)) != len(names):
            raise ValueError(f"reader names must be unique: {names}")
        self._readers = [(reader, max(1, round(reader.period_s * rate_hz))) for reader in readers]
        self._report_ticks = max(1, round(REPORT_PERIOD_S * rate_hz))
        self._last_round: dict[str, int] = {}
        self._reported: dict[str, tuple[str | None, int]] = {}
        self._tags = lru_cache(maxsize=1024)(lambda tags: (*tags, *common_tags))

    def collect(self, now: Instant) -> list[Sample]:
        """Samples of this tick, one a series, common tags added, fields of equal series merged."""
        merged: dict[tuple[str, Tags], dict[str, FieldValue]] = {}
        reports: list[Sample] = []
        for reader, every in self._readers:
            # Rounds instead of a modulus: a lost tick delays a slow reader, it does not skip it.
            this_round = now.index // every
            if self._last_round.get(reader.name) == this_round:
                continue
            self._last_round[reader.name] = this_round
            reason: str | None = None
            samples: Sequence[Sample] = ()
            try:
                samples = reader.read(now)
            except SensorUnavailable as gap:
                reason, samples = str(gap), gap.samples
            except (ValueError, IndexError, KeyError) as error:
                reason = f"unexpected content: {type(error).__name__}: {error}"
            for sample in samples:
                merged.setdefault((sample.measurement, sample.tags), {}).update(sample.fields)
            reports.extend(self.report(reader.name, reason, now))
        return [
            *(Sample(name, fields, self._tags(tags)) for (name, tags), fields in merged.items()),
            *reports,
        ]

    def report(self, name: str, reason: str | None, now: Instant) -> list[Sample]:
        """`pq_sensor` for a sensor whose state is new, or was last reported a minute ago; else nothing."""
        last = self._reported.get(name)
        if last is not None and last[0] == reason and now.index - last[1] < self._report_ticks:
            return []
        self._reported[name] = (reason, now.index)
        fields: dict[str, FieldValue] = {"available": reason is None}
        if reason is not None:
            fields["reason"] = plain_text(reason)
        return [Sample("pq_sensor", fields, self._tags((("name", name),)))]

    def sensors(self, now: Instant) -> list[dict[str, object]]:
        """Each reader once: [{name, available, reason}] for `facts`."""
        rows: list[dict[str, object]] = []
        for reader, _ in self._readers:
            reason: str | None = None
            try:
                reader.read(now)
            except SensorUnavailable as gap:
                reason = str(gap)
            except (ValueError, IndexError, KeyError) as error:
                reason = f"unexpected content: {type(error).__name__}: {error}"
            rows.append({"name": reader.name, "available": reason is None, "reason": reason})
        return rows
