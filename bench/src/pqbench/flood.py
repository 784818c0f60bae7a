"""Forged datagrams at the receiver, with its own index in their header, beside real traffic at 320 Hz."""

from __future__ import annotations

import json
from typing import Final

from pqbase.documents import Json, number_of, part_of, whole_of
from pqbench.children import child
from pqbench.errors import ChildFailed
from pqbench.figures import rounded
from pqbench.forwarding import Load, offer
from pqbench.machine import process_cpu_ns
from pqbench.peers import binary, of_tunnel
from pqbench.spaces import ADDRESS, Spaces
from pqbench.tunnel import SEALED_PORT, Tunnel

FORGED_HZ: Final = 20_000
SOURCE_PORT: Final = 45_099
SIZE_BYTES: Final = 88
"""A sealed datagram of 64 bytes."""


def _counted(after: Json, before: Json, name: str) -> int:
    return whole_of(part_of(after, "counters"), name) - whole_of(part_of(before, "counters"), name)


def run(where: Spaces, tunnel: Tunnel, seconds: float, rate_hz: int = FORGED_HZ) -> Json:
    """Flood the gcs for `seconds`; the forged rate is what its counters say it took in."""
    try:
        word = tunnel.drone.ask(do="header_word")["word"]
        command = [
            binary("pqload"),
            "flood",
            "--source",
            f"{ADDRESS['drone']}:{SOURCE_PORT}",
            "--target",
            f"{ADDRESS['gcs']}:{SEALED_PORT['gcs']}",
            "--rate-hz",
            str(rate_hz),
            "--seconds",
            str(seconds),
            "--size",
            str(SIZE_BYTES),
            "--word",
            str(word),
            "--seed",
            "20260",
        ]
        gcs_pid = [tunnel.gcs.process.pid]
        before, gcs_ns = tunnel.counters("gcs"), process_cpu_ns(gcs_pid)
        with child("flood", command) as flood:
            legitimate = offer(where, Load("flood", 64, 1, 320, seconds), of_tunnel("tunnel", tunnel))
            sent = json.loads(flood.finish())
        gcs_ns = process_cpu_ns(gcs_pid) - gcs_ns
        after = tunnel.counters("gcs")
    except ChildFailed as error:
        return {"missing": str(error)}
    wall_s = (whole_of(after, "time_ns") - whole_of(before, "time_ns")) / 1e9
    refused = _counted(after, before, "auth_failed")
    both_cpu_ns = number_of(legitimate, "cpu_us_per_packet") * number_of(legitimate, "received_count") * 1e3
    return {
        "forged_sent_count": sent["sent_count"],
        "forged_counted_at_receiver": refused,
        "forged_at_receiver_hz": rounded(refused / sent["seconds"], 0),
        "queue_full_count": _counted(after, before, "queue_full"),
        "legitimate_sent_count": legitimate["sent_count"],
        "legitimate_lost_count": legitimate["lost_count"],
        "receiver_cpu_pct": rounded(100 * gcs_ns / 1e9 / wall_s, 1),
        "both_ends_cpu_pct": rounded(100 * both_cpu_ns / 1e9 / wall_s, 1),
        "seconds": rounded(wall_s, 2),
    }
