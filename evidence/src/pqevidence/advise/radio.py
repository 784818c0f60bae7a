"""A radio link as it is asked about and as a cell of the lab had it: rate, delay, loss, packet size.

Both directions alike. What a condition sets beyond that (bursts, jitter, traces, unlike directions) is no
`Radio`: nothing here models it, so such a cell is no evidence and such a question has no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pqevidence.errors import UsageError

#: of the lab's router: what every cell was measured with
LAB_MTU_BYTES: Final = 1500
#: IPv4 and TCP with time stamps
HEAD_BYTES: Final = 52
_LEAST_MTU_BYTES: Final = 576
#: keys of a direction that a Radio tells, or that only shape what another key sets
_TOLD: Final = ("rate_kbps", "delay_ms", "loss_pct", "queue_ms", "distribution")


@dataclass(frozen=True, order=True)
class Radio:
    """rate_kbps: of IP packets, each way; delay_ms: one way; loss_pct: of packets, each by itself."""

    rate_kbps: float
    delay_ms: float
    loss_pct: float
    mtu_bytes: int = LAB_MTU_BYTES

    @property
    def segment_bytes(self) -> int:
        """TCP payload of a full packet."""
        return self.mtu_bytes - HEAD_BYTES

    def seconds(self, size_bytes: float) -> float:
        """How long that many bytes of IP packets take the transmitter."""
        return size_bytes * 8 / (self.rate_kbps * 1000)

    def __str__(self) -> str:
        loss = f"{self.loss_pct:g} % loss" if self.loss_pct else "no loss"
        return f"{self.rate_kbps:g} kbit/s, {self.delay_ms:g} ms one way, {loss}, MTU {self.mtu_bytes}"


def asked_radio(rate_kbps: float, delay_ms: float, loss_pct: float, mtu_bytes: int) -> Radio:
    """The radio of a question. Raises UsageError for what is no radio."""
    for option, value, least, most in (
        ("--rate-kbps", rate_kbps, 0.001, 10_000_000.0),
        ("--delay-ms", delay_ms, 0.0, 10_000.0),
        ("--loss-pct", loss_pct, 0.0, 100.0),
        ("--mtu", mtu_bytes, _LEAST_MTU_BYTES, 9000),
    ):
        if not least <= value <= most:  # False for what is no number, too
            raise UsageError(
                "bad-radio",
                f"{option} {value:g} is no radio's",
                f"it lies between {least:g} and {most:g}",
                f"./pqlab advise --rate-kbps 800 --delay-ms 60 --loss-pct 0, with your {option}",
            )
    return Radio(rate_kbps, delay_ms, loss_pct, mtu_bytes)


def radio_of(link: object) -> Radio | str | None:
    """The radio that a `link` block sets; None where it sets nothing; why it is none, in words."""
    if not isinstance(link, Mapping):
        return None
    up, down = ({k: v for k, v in (link.get(way) or {}).items() if v} for way in ("up", "down"))
    if not up and not down:
        return None
    if up != down:
        return "its two directions differ"
    beyond = sorted(set(up) - set(_TOLD))
    if beyond:
        return f"it sets {', '.join(beyond)}, which the model does not know"
    if not up.get("rate_kbps"):
        return "it sets no rate"
    return Radio(float(up["rate_kbps"]), float(up.get("delay_ms", 0.0)), float(up.get("loss_pct", 0.0)))
