"""What the kernel dropped or refused: UDP counters of this network namespace and interface counters.

Sources: /proc/net/snmp (RFC 4113 names and Linux additions) and /proc/net/dev (proc(5)).
All fields are cumulative counts since the namespace was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.line import FieldValue, Sample, tag_text
from pqtelemetry.procfile import ProcFile
from pqtelemetry.readers.base import Instant

_UDP_FIELDS = {
    b"InDatagrams": "udp_in_datagrams",
    b"OutDatagrams": "udp_out_datagrams",
    b"NoPorts": "udp_no_ports",
    b"InErrors": "udp_in_errors",
    b"RcvbufErrors": "udp_rcvbuf_errors",
    b"SndbufErrors": "udp_sndbuf_errors",
}
# Columns of /proc/net/dev after the colon.
_DEV_COLUMNS = {
    "rx_bytes": 0,
    "rx_packets": 1,
    "rx_errors": 2,
    "rx_dropped": 3,
    "tx_bytes": 8,
    "tx_packets": 9,
    "tx_errors": 10,
    "tx_dropped": 11,
}


class Udp:
    """`pq_net` udp_*: datagrams and errors of the namespace (udp_in_errors includes udp_rcvbuf_errors)."""

    name = "udp"
    period_s = 0.0

    def __init__(self, root: Path) -> None:
        self._file = ProcFile(root / "proc/self/net/snmp")

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample; raises SensorUnavailable when the kernel has no UDP table."""
        _, found, rest = self._file.read().partition(b"\nUdp: ")
        head, _, rest = rest.partition(b"\n")
        row, _, _ = rest.partition(b"\n")
        if not found or not row.startswith(b"Udp: "):
            raise SensorUnavailable("/proc/net/snmp has no Udp table")
        table = dict(zip(head.split(), row.split()[1:], strict=False))
        fields: dict[str, FieldValue] = {
            field: int(table[column]) for column, field in _UDP_FIELDS.items() if column in table
        }
        return [Sample("pq_net", fields)]


def _interfaces(data: bytes) -> list[tuple[str, list[bytes]]]:
    rows: list[tuple[str, list[bytes]]] = []
    for line in data.splitlines()[2:]:
        name, colon, rest = line.partition(b":")
        columns = rest.split()
        interface = name.strip().decode("utf-8", errors="replace")
        if colon and len(columns) >= 12 and interface != "lo":
            rows.append((interface, columns))
    if not rows:
        raise SensorUnavailable("no network interface but the loopback")
    return rows


class InterfaceDrops:
    """`pq_net` if_rx_dropped, if_tx_dropped: sums over all interfaces but the loopback."""

    name = "interface-drops"
    period_s = 0.0

    def __init__(self, root: Path) -> None:
        self._file = ProcFile(root / "proc/self/net/dev")

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample; raises SensorUnavailable when there is only a loopback."""
        rows = _interfaces(self._file.read())
        fields: dict[str, FieldValue] = {
            f"if_{field}": sum(int(columns[_DEV_COLUMNS[field]]) for _, columns in rows)
            for field in ("rx_dropped", "tx_dropped")
        }
        return [Sample("pq_net", fields)]


class Interfaces:
    """`pq_if,interface=X`: bytes, packets, errors and drops each way, once a second."""

    name = "interfaces"
    period_s = 1.0

    def __init__(self, root: Path) -> None:
        self._file = ProcFile(root / "proc/self/net/dev")

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample an interface; raises SensorUnavailable when there is only a loopback."""
        rows = _interfaces(self._file.read())
        return [
            Sample(
                "pq_if",
                {field: int(columns[column]) for field, column in _DEV_COLUMNS.items()},
                (("interface", tag_text(interface)),),
            )
            for interface, columns in rows
        ]
