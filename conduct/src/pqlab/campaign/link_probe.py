"""Achieved delay, jitter and loss of the link as it stands now, by UDP and TCP probes between the helpers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from pqbase.documents import Json, part_of, whole_of
from pqlab.campaign.link import LinkConnection, LinkFailure
from pqlink.achieved import SYN_BYTES, UDP_HEADER_BYTES, longest_ms, probe_rate_hz, tcp_resolvable
from pqlink.figures import loss_figures
from pqlink.settings import Side

SIZE_BYTES: Final = 64
#: a slow link cannot carry many probes: fewer of them then, never a longer wait
_LONGEST_S: Final = 10.0
_MARGIN_S: Final = 0.3
_SLACK_S: Final = 5.0
_POLL_S: Final = 0.05


@dataclass(frozen=True)
class ProbeSettings:
    """How many probes at most, and how fast at most."""

    udp_count: int = 400
    tcp_count: int = 200
    rate_hz: float = 400.0


def probe_link(connection: LinkConnection, up: Side, down: Side, wanted: ProbeSettings) -> Json:
    """{"udp": …, "tcp": …}; `tcp` is {"reason"} where delay cannot be told from loss. Raises LinkFailure."""
    patience_s = (longest_ms(up) + longest_ms(down)) / 1000 + _MARGIN_S
    rate_hz = probe_rate_hz(up, down, SIZE_BYTES + UDP_HEADER_BYTES, wanted.rate_hz)
    count = max(1, min(wanted.udp_count, int(rate_hz * _LONGEST_S)))
    answer, arrived = _run(connection, "udp", count, rate_hz, size_bytes=SIZE_BYTES, patience_s=patience_s)
    udp = {key: answer[key] for key in ("sent", "returned", "doubles", "reordered", "size_bytes", "rate_hz")}
    udp["up"] = {**loss_figures(count, arrived), **part_of(answer, "up")}
    udp["down"] = {**loss_figures(arrived, whole_of(answer, "returned")), **part_of(answer, "down")}
    if not tcp_resolvable(up, down):
        return {
            "udp": udp,
            "tcp": {"reason": "the round trip is too long to tell a slow answer from a lost one"},
        }
    # an attempt is two packets up and one down, and the reset that ends it
    rate_hz = probe_rate_hz(up, down, 3 * SYN_BYTES, wanted.rate_hz)
    count = max(1, min(wanted.tcp_count, int(rate_hz * _LONGEST_S)))
    tcp, _ = _run(connection, "tcp", count, rate_hz)
    return {"udp": udp, "tcp": tcp}


def _run(
    connection: LinkConnection, kind: str, count: int, rate_hz: float, **more: float
) -> tuple[Json, int]:
    """One probe from the drone's end: its result, and how many UDP probes arrived at the other end."""
    lasts_s = count / rate_hz + more.get("patience_s", 1.0) + _SLACK_S
    connection.ask("gcs", "echo", for_s=lasts_s)
    connection.ask("drone", "probe", kind=kind, count=count, rate_hz=rate_hz, **more)
    deadline_s = time.monotonic() + lasts_s
    while (answer := connection.ask("drone", "probe_result"))["running"]:
        if time.monotonic() > deadline_s:
            raise LinkFailure(
                "link-probe",
                f"the {kind} probe did not end",
                f"waited {lasts_s:.1f} s",
                "make lab-status",
            )
        time.sleep(_POLL_S)
    arrived = whole_of(connection.ask("gcs", "echo_end"), "seen")
    result = part_of(answer, "result")
    if result.get("ok") is False:
        raise LinkFailure("link-probe", f"the {kind} probe failed", str(result["error"]), str(result["hint"]))
    return result, arrived
