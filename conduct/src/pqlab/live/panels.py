"""What the live view and the dashboards draw: each panel is one or more fields of the samplers' series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

How = Literal["mean", "rate", "max"]


@dataclass(frozen=True)
class Line:
    """One field of one series, for each value of the tags in `by`; `rate` is a counter's growth a second."""

    label: str
    measurement: str
    field: str
    how: How
    by: tuple[str, ...] = ("host",)
    where: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Panel:
    """One drawing; `none` says what its absence means, `sensor` names the sensor that has a reason for it."""

    id: str
    title: str
    unit: str
    lines: tuple[Line, ...]
    none: str
    sensor: str | None = None


PANELS = (
    Panel(
        "link", "Sealed datagrams", "1/s",
        (Line("sent", "pq_tunnel", "tx_data", "rate"), Line("opened", "pq_tunnel", "rx_ok", "rate")),
        "no cell is under way",
    ),
    Panel(
        "goodput", "Delivered plaintext", "B/s",
        (Line("delivered", "pq_tunnel", "plaintext_out_bytes", "rate"),),
        "no cell is under way",
    ),
    Panel(
        "handshakes", "Handshakes and rekeys", "1/s",
        (
            Line("handshakes", "pq_tunnel", "hs_completed", "rate", ("host",), (("host", "drone"),)),
            Line("rekeys", "pq_tunnel", "rekey_completed", "rate", ("host",), (("host", "drone"),)),
        ),
        "no cell is under way",
    ),
    Panel(
        "refused", "Refused datagrams", "1/s",
        (
            Line("authentication", "pq_tunnel", "auth_failed", "rate"),
            Line("header", "pq_tunnel", "bad_header", "rate"),
            Line("replay", "pq_tunnel", "replay", "rate"),
            Line("receive buffer full", "pq_net", "udp_rcvbuf_errors", "rate"),
        ),
        "no cell is under way",
    ),
    Panel(
        "cpu", "CPU of the tunnel", "% of a core",
        (Line("tunnel", "pq_cpu", "process_pct", "mean"),), "no sampler writes",
    ),
    Panel(
        "machine", "CPU of the machine", "% of all cores",
        (Line("busy", "pq_cpu", "system_pct", "mean"), Line("steal", "pq_cpu", "steal_pct", "mean")),
        "no sampler writes",
    ),
    Panel(
        "temperature", "Temperature", "°C",
        (Line("", "pq_temp", "temperature_c", "max", ("host", "zone")),), "no temperature sensor",
        "thermal",
    ),
    Panel(
        "power", "Power", "W",
        (Line("", "pq_power", "power_w", "mean", ("host", "sensor"), (("synthetic", "false"),)),),
        "no power sensor was asked for, or only a synthetic one, which is not shown", "power",
    ),
    Panel(
        "detector", "Detector scores", "score",
        (
            Line("attack", "pq_detector", "attack_score", "max", ("host", "model")),
            Line("degraded", "pq_detector", "degraded_score", "max", ("host", "model")),
        ),
        "no detector runs",
    ),
)  # fmt: skip


def influxql(line: Line, since_ns: int, step_s: int) -> str:
    """The statement of one line since a moment (Unix time), one value every `step_s`."""
    return statement(line, f"time >= {since_ns}", f"{step_s}s")


def statement(line: Line, when: str, step: str) -> str:
    """The statement of one line, in InfluxQL's own words for the time and the step."""
    field = f'"{line.field}"'
    what = {
        "mean": f"mean({field})",
        "max": f"max({field})",
        "rate": f"non_negative_derivative(last({field}), 1s)",
    }[line.how]
    where = "".join(f" AND \"{tag}\" = '{value}'" for tag, value in line.where)
    groups = ", ".join([f"time({step})", *(f'"{tag}"' for tag in line.by)])
    return f'SELECT {what} FROM "{line.measurement}" WHERE {when}{where} GROUP BY {groups} fill(none)'
