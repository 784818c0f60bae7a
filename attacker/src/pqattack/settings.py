"""One episode as a scenario describes it: what is sent, how fast, for how long, to whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from pqattack.bounds import (
    MAX_BENIGN_PPS,
    MAX_FOR_S,
    MAX_HANDSHAKES_PPS,
    MAX_RATE_PPS,
    MAX_SIZE_BYTES,
    MIN_SIZE_BYTES,
    TARGETS,
)
from pqattack.errors import SettingsError

ATTACKS: Final = (
    "flood", "forged", "pulsing", "ramp", "spoof", "replay", "bad-header", "handshake-flood",
)  # fmt: skip
#: what happens on any shared medium without anybody meaning harm
BENIGN: Final = ("stray", "stray-auth", "stale-epoch")
KINDS: Final = (*ATTACKS, *BENIGN)
#: kinds made of what was heard on air
LEARNING: Final = ("forged", "spoof", "replay", "stray-auth", "stale-epoch")
PATHS: Final = ("direct", "link")
_KEYS: Final = (
    "kind", "for_s", "rate_pps", "size_bytes", "target", "path", "pulse_on_ms", "pulse_off_ms", "seed",
)  # fmt: skip
MAX_SEED: Final = 2**53 - 1
DEFAULT_RATE_PPS: Final = 1000.0
DEFAULT_SIZE_BYTES: Final = 120


@dataclass(frozen=True)
class Episode:
    """One episode, checked. rate_pps: steady, or the peak of `ramp` and of `pulsing` while it is on."""

    kind: str
    for_s: float
    rate_pps: float = DEFAULT_RATE_PPS
    size_bytes: int = DEFAULT_SIZE_BYTES
    target: str = "drone"
    path: str = "direct"
    pulse_on_ms: float | None = None
    pulse_off_ms: float | None = None
    seed: int = 0

    @classmethod
    def parse(cls, given: object) -> Episode:
        """From a mapping with the scenario's keys; None is an absent key. Raises SettingsError."""
        if not isinstance(given, Mapping):
            raise SettingsError(f"an attack is a mapping of settings, not {given!r:.80}")
        unknown = sorted(str(key) for key in set(given) - set(_KEYS))
        if unknown:
            raise SettingsError(f"unknown key {unknown[0]!r}", hint=f"keys: {', '.join(_KEYS)}")
        told = {key: value for key, value in given.items() if value is not None}
        kind = _word("kind", told.get("kind"), KINDS)
        episode = cls(
            kind=kind,
            for_s=_number("for_s", told.get("for_s"), MAX_FOR_S),
            rate_pps=_number("rate_pps", told.get("rate_pps", DEFAULT_RATE_PPS), _fastest(kind)),
            size_bytes=_whole(
                "size_bytes", told.get("size_bytes", DEFAULT_SIZE_BYTES), MIN_SIZE_BYTES, MAX_SIZE_BYTES
            ),
            target=_word("target", told.get("target", "drone"), TARGETS),
            path=_word("path", told.get("path", "direct"), PATHS),
            pulse_on_ms=_pulse("pulse_on_ms", told),
            pulse_off_ms=_pulse("pulse_off_ms", told),
            seed=_whole("seed", told.get("seed", 0), 0, MAX_SEED),
        )
        episode._agree()
        return episode

    def _agree(self) -> None:
        pulses = (self.pulse_on_ms, self.pulse_off_ms)
        if self.kind == "pulsing" and None in pulses:
            raise SettingsError("pulsing needs pulse_on_ms and pulse_off_ms", hint="set both")
        if self.kind != "pulsing" and pulses != (None, None):
            raise SettingsError(f"{self.kind} takes no pulse_on_ms or pulse_off_ms", hint="kind: pulsing")
        if self.kind == "handshake-flood" and (self.target, self.path) != ("gcs", "direct"):
            raise SettingsError(
                "handshake-flood goes to the gcs, which alone takes handshakes, on the direct path",
                hint="target: gcs, path: direct",
            )

    @property
    def benign(self) -> bool:
        """Nobody means harm by it: a detector that calls it an attack is wrong."""
        return self.kind in BENIGN

    def as_dict(self) -> dict[str, object]:
        """Every key with its value, as `parse` takes it."""
        return asdict(self)


def _fastest(kind: str) -> float:
    if kind in BENIGN:
        return MAX_BENIGN_PPS
    return MAX_HANDSHAKES_PPS if kind == "handshake-flood" else MAX_RATE_PPS


def _word(key: str, value: object, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise SettingsError(f"{key} cannot be {value!r:.40}", hint=f"one of: {', '.join(allowed)}")
    return value


def _number(key: str, value: object, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise SettingsError(f"{key} must be a number above 0 and at most {most:g}, not {value!r:.40}")
    return float(value)


def _whole(key: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise SettingsError(f"{key} must be a whole number in {least} … {most}, not {value!r:.40}")
    return value


def _pulse(key: str, told: Mapping[str, object]) -> float | None:
    return _number(key, told[key], 60_000) if key in told else None
