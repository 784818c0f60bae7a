"""How many datagrams are due by a moment of an episode. Pure functions of the settings."""

from __future__ import annotations

from collections.abc import Callable

from pqattack.settings import Episode

#: (seconds since the episode began) → datagrams due by then
Due = Callable[[float], float]


def due_of(episode: Episode) -> Due:
    """The episode's own curve: steady, in pulses, or rising from nothing to `rate_pps` at its end."""
    rate_pps, for_s = episode.rate_pps, episode.for_s
    if episode.kind == "ramp":
        return lambda t_s: rate_pps * t_s * t_s / (2 * for_s)
    if episode.kind == "pulsing":
        assert episode.pulse_on_ms is not None and episode.pulse_off_ms is not None
        on_s, period_s = episode.pulse_on_ms / 1e3, (episode.pulse_on_ms + episode.pulse_off_ms) / 1e3

        def pulses(t_s: float) -> float:
            whole, rest_s = divmod(t_s, period_s)
            return rate_pps * (whole * on_s + min(rest_s, on_s))

        return pulses
    return lambda t_s: rate_pps * t_s
