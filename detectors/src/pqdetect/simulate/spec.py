"""What is simulated: one flight, fully described by numbers and a seed. Drawn by `splits`, run by
`engine`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

SplitName = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class LinkSpec:
    """The way to the endpoint. Absent effects are 0; `rate_kbps` 0 is no limit."""

    delay_ms: float = 0.1
    """One way, without queue and jitter."""
    jitter_ms: float = 0.0
    """Standard deviation of what is added to the delay."""
    loss_pct: float = 0.0
    rate_kbps: float = 0.0
    """Shared by the peer's packets and an attack that takes this way."""
    queue_ms: float = 1000.0
    """What waits longer in front of the rate limit is dropped."""
    router_pps: float = 0.0
    """Packets a second that the router in the way forwards; 0: no limit."""
    fades: float = 0.0
    """Fades an hour: loss rises to a depth and falls again, both ways."""
    fade_s: tuple[float, float] = (1.0, 10.0)
    bursts: float = 0.0
    """Loss bursts an hour."""
    burst_ms: tuple[float, float] = (50.0, 500.0)
    stalls: float = 0.0
    """Stalls an hour: packets are held and come together afterwards."""
    stall_s: tuple[float, float] = (0.1, 2.0)
    duplicate_pct: float = 0.0
    reorder_pct: float = 0.0
    """Packets that lose 2 to 40 ms more than their neighbours."""
    corrupt_pct: float = 0.0
    """Packets that arrive damaged and pass every checksum: a tenth of it outside fades, up to ten times
    within."""
    fifo: bool = False
    """The link keeps the order despite its jitter."""
    shared: bool = False
    """Attack traffic passes it too; otherwise it reaches the endpoint beside it."""


@dataclass(frozen=True)
class GroundSpec:
    """What both ends do by themselves. Rates are events an hour."""

    tx_profile: str = "intervals_320hz"
    tx_rate_hz: float = 320.0
    missions: float = 0.0
    """Mission uploads: tens of items at the pace of the round trip."""
    transfers: float = 0.0
    """Parameter lists and file downloads: the vehicle's rate rises, the ground asks on."""
    modes: float = 0.0
    """Mode changes: a handful of commands, another stream rate."""
    joystick: float = 0.0
    """Minutes of manual control at 5 to 50 Hz."""
    pauses: float = 0.0
    """The ground station is silent; keepalives alone come."""
    rtk: bool = False
    """GPS corrections: a few large datagrams each second."""
    rekey_every_s: float = 600.0
    restarts: float = 0.0
    """Restarts of the endpoint: its keys and its feed are gone for a moment."""
    setup_s: float = 0.0
    """Cold handshakes one after another at the beginning."""
    handshake_bytes: float = 20_000.0
    """What one handshake brings in over TCP."""
    shared_nic_pps: float = 0.0
    """Other traffic of the host on the same interface, packets a second; 0 where the link has its own."""
    interface_known: bool = True


@dataclass(frozen=True)
class StraySpec:
    """Benign datagrams of others; rates are events an hour."""

    scans: float = 0.0
    """A scanner: a few to some tens of packets to this and other ports."""
    misdirected: float = 0.0
    """A host that sends its own plain MAVLink to this port, seconds to minutes long."""
    foreign_sessions: float = 0.0
    """Sealed packets of another pair that lost its way (address reuse), seconds long."""
    auth_strays: float = 0.0
    """Single packets whose tag does not fit, whoever damaged them."""
    stale: float = 0.0
    """A few packets of epochs that ended, out of some buffer on the way or a host that repeats itself."""
    coincide: float = 0.0
    """Share of strays that fall into fades and bursts instead of anywhere."""


@dataclass(frozen=True)
class AttackSpec:
    """One episode."""

    kind: str
    start_s: float
    for_s: float
    rate_pps: float
    size_bytes: int
    """UDP payload; replay takes the sizes of what it captured."""
    through_link: bool
    on_s: float = 0.0
    """pulsing: time on and off; 0: on throughout."""
    off_s: float = 0.0
    variant: int = 0
    """Which of the kind's ways (see `attacks`)."""


@dataclass(frozen=True)
class Spec:
    """One flight."""

    scenario_id: str
    seed: int
    kind: str
    """Attack kind, or `none`."""
    theme: str
    profile: str
    duration_s: float
    link: LinkSpec = field(default_factory=LinkSpec)
    ground: GroundSpec = field(default_factory=GroundSpec)
    strays: StraySpec = field(default_factory=StraySpec)
    attacks: tuple[AttackSpec, ...] = ()
    host_pps: float = 100_000.0
    """Datagrams a second that the endpoint takes out of its socket; more fill the socket's queue."""
