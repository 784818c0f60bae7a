"""A trace in a few figures. Pure functions."""

from __future__ import annotations

from pqbase.documents import Json
from pqlink.trace import Trace

_MS_NS = 1_000_000


def fades_ms(trace: Trace) -> list[float]:
    """How long everything was lost each time, in the order of the trace; [] where it knows no loss."""
    fades: list[float] = []
    before_ns = -1
    for loss, (begin_ns, end_ns) in zip(trace.losses_pct or (), trace.spans_ns, strict=False):
        if loss < 100:
            continue
        length_ms = (end_ns - begin_ns) / _MS_NS
        if begin_ns == before_ns:
            fades[-1] += length_ms
        else:
            fades.append(length_ms)
        before_ns = end_ns
    return fades


def describe(trace: Trace) -> Json:
    """The trace in figures; null is what it does not know."""
    fades, delays = fades_ms(trace), trace.delays_ns
    return {
        "sha256": trace.sha256,
        "origin": trace.meta["origin"],
        "length_s": trace.end_ns / 1e9,
        "steps_count": len(trace.starts_ns),
        "rate_mean_bit_s": None if trace.mean_rate_bit_s is None else round(trace.mean_rate_bit_s, 1),
        "loss_mean_pct": None if trace.mean_loss_pct is None else round(trace.mean_loss_pct, 4),
        "fades_count": None if trace.losses_pct is None else len(fades),
        "fade_mean_ms": round(sum(fades) / len(fades), 3) if fades else None,
        "fade_max_ms": round(max(fades), 3) if fades else None,
        "delay_min_ms": None if delays is None else min(_told(trace)) / _MS_NS,
        "delay_max_ms": None if delays is None else max(_told(trace)) / _MS_NS,
    }


def _told(trace: Trace) -> list[int]:
    """Delays of steps in which something arrives; all of them where nothing ever does."""
    delays = trace.delays_ns or ()
    losses = trace.losses_pct or (0.0,) * len(delays)
    return [d for d, loss in zip(delays, losses, strict=True) if loss < 100] or list(delays)
