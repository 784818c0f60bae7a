"""What the host itself counts of the sealed side: one interface's packets, and UDP errors. Linux only."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Final

from pqbase.net import interface_of
from pqtunnel.errors import TunnelError

PROC: Final = Path("/proc/net")
_DEV: Final = {"rx_bytes": 0, "rx_packets": 1, "rx_dropped": 3, "tx_bytes": 8, "tx_packets": 9}
"""Places of /proc/net/dev after the interface's name."""
_UDP: Final = {"in_errors": "InErrors", "no_ports": "NoPorts", "rcvbuf_errors": "RcvbufErrors"}


class HostNetError(TunnelError):
    """A counter of the host cannot be read; the message is the reason that the feed gives."""

    code = "no_host_counters"
    hint = "the feed goes on without them"


def interface_towards(peer: str) -> str:
    """Name of the interface that packets to `peer` leave by. Raises HostNetError."""
    if not peer:
        raise HostNetError("no peer address is configured (PQ_PEER), so no interface can be told")
    if sys.platform == "win32":
        raise HostNetError("interface counters are read on Linux alone")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((peer, 9))  # sends nothing: asks the routing table
            own = probe.getsockname()[0]
            if own.startswith("127."):
                return "lo"
        name = interface_of(own)
    except OSError as error:
        raise HostNetError(f"no way to the peer {peer}: {error.strerror or error}") from error
    if name is None:
        raise HostNetError(f"no interface has the address {own} that packets to {peer} leave from")
    return name


def interface_counters(name: str, proc: Path = PROC) -> dict[str, int]:
    """rx_packets, rx_bytes, rx_dropped, tx_packets, tx_bytes of an interface. Raises HostNetError."""
    path = proc / "dev"
    for line in _lines(path):
        label, colon, values = line.partition(":")
        if colon and label.strip() == name:
            numbers = values.split()
            return {key: int(numbers[place]) for key, place in _DEV.items()}
    raise HostNetError(f"{path} has no interface {name}")


def udp_counters(proc: Path = PROC) -> dict[str, int]:
    """in_errors, no_ports and rcvbuf_errors of the host's UDP. Raises HostNetError."""
    if sys.platform == "win32" and proc == PROC:
        raise HostNetError("UDP counters are read on Linux alone")
    path = proc / "snmp"
    rows = [line.split() for line in _lines(path) if line.startswith("Udp:")]
    if len(rows) < 2:
        raise HostNetError(f"{path} says nothing of UDP")
    named = dict(zip(rows[0][1:], rows[1][1:], strict=True))
    return {key: int(named[name]) for key, name in _UDP.items()}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise HostNetError(f"{path} cannot be read: {error.strerror or error}") from error
