"""Handshakes: every suite against its own primitives and its floor, then Rosenpass beside it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pqbase.documents import Json, rows_of, whole_of
from pqbase.stats import tail
from pqbench import native
from pqbench.children import child, output_of
from pqbench.errors import ChildFailed, PeerMissing
from pqbench.figures import median, of_handshakes, rounded
from pqbench.floor import Floors, beside
from pqbench.peers import binary
from pqbench.spaces import ADDRESS, Spaces
from pqbench.tunnel import Tunnel

CRITICAL_PATH: Final = ("keygen", "sign", "verify", "encaps", "decaps")
"""Follow one another in every handshake: no two of them can overlap."""
ROSENPASS_PORT: Final = 45101


def handshakes_of(rows: dict[str, list[Json]]) -> list[dict[str, float]]:
    """One entry a completed handshake: the drone's wall, the sum of the primitives of both ends and the key
    generation among them, in ms."""
    crypto_ns: dict[str, int] = defaultdict(int)
    keygen_ns: dict[str, int] = {}
    wall_ns: dict[str, int] = {}
    steps: dict[str, set[str]] = defaultdict(set)
    for side, spans in rows.items():
        for row in spans:
            handshake_id = str(row["handshake_id"])
            length_ns = whole_of(row, "end_ns") - whole_of(row, "start_ns")
            if row["step"] == "handshake" and side == "drone":
                wall_ns[handshake_id] = length_ns
            if row["step"] in CRITICAL_PATH and row["kind"] == "crypto":
                crypto_ns[handshake_id] += length_ns
                steps[handshake_id].add(str(row["step"]))
                if row["step"] == "keygen":
                    keygen_ns[handshake_id] = length_ns
    return [
        {"wall_ms": wall / 1e6, "crypto_ms": crypto_ns[key] / 1e6, "keygen_ms": keygen_ns[key] / 1e6}
        for key, wall in wall_ns.items()
        if steps[key] == set(CRITICAL_PATH)
    ]


def one_suite(
    tunnel: Tunnel, suite_id: str, count: int, least: int, limit_s: float, drone_auth: str = "psk"
) -> Json:
    """Cold handshakes of one suite: medians with n, or why there are none."""
    try:
        tunnel.prepare(suite_id, drone_auth)
        block = tunnel.drone.ask(do="handshakes", count=count, least=least, limit_s=limit_s)
        rows = {
            "drone": rows_of(tunnel.drone.ask(do="spans"), "rows"),
            "gcs": rows_of(tunnel.gcs.ask(do="spans"), "rows"),
        }
    except ChildFailed as error:
        return {"suite_id": suite_id, "missing": str(error)}
    taken = handshakes_of(rows)
    found: Json = {"suite_id": suite_id, "failed_count": block["failed"], **of_handshakes(taken)}
    return (
        found if taken else {**found, "missing": f"no handshake completed: {rows_of(block, 'failures')[:1]}"}
    )


def suites(
    where: Spaces,
    tunnel: Tunnel,
    floors: Floors,
    suite_ids: list[str],
    count: int,
    limit_s: float,
    tell: Callable[[str], None],
) -> tuple[list[Json], list[Json]]:
    """Every suite by the tunnel and by `pqlink`, the floor of both just before: `count` handshakes each, or
    at least 5 where fewer fit `limit_s`."""
    lab: list[Json] = []
    link: list[Json] = []
    for place, suite_id in enumerate(suite_ids, 1):
        floor = floors.of(suite_id)
        found = one_suite(tunnel, suite_id, count, min(5, count), limit_s)
        lab.append({**found, **beside(suite_id, found, floor)})
        found = native.one_suite(where, suite_id, count, limit_s)
        link.append({**found, **beside(suite_id, found, floor)})
        tell(f"handshake {place}/{len(suite_ids)} {suite_id}: {_said(lab[-1])}; pqlink {_said(link[-1])}")
    return lab, link


def _said(row: Json) -> object:
    return row.get("missing") or (
        f"{row['wall_median_ms']} ms, {row['ratio_median']} × crypto, "
        f"{row.get('floor_ratio', 'an unknown multiple of')} × floor"
    )


# ---------------------------------------------------------------------------- Rosenpass


def rosenpass(where: Spaces, count: int) -> Json:
    """Rosenpass (Classic McEliece 460896 static, Kyber-512 ephemeral) over the same veth."""
    folder = Path("/tmp/rosenpass")
    try:
        program = binary("rosenpass")
        folder.mkdir(exist_ok=True)
        output_of([program, "keygen", str(folder)])
        listen = f"{ADDRESS['gcs']}:{ROSENPASS_PORT}"
        with child("rosenpass responder", where.at("gcs", program, "respond", str(folder), listen)) as end:
            end.wait_ready()
            mine = f"{ADDRESS['drone']}:{ROSENPASS_PORT}"
            command = where.at("drone", program, "initiate", str(folder), mine, listen)
            walls: list[float] = json.loads(output_of([*command, str(count)]))["wall_ms"]
    except (PeerMissing, ChildFailed) as error:
        return {"missing": str(error)}
    return {
        "n": len(walls),
        "wall_ms": walls,
        "wall_median_ms": rounded(median(walls)),
        "wall_p95_ms": rounded(tail(walls, 0.95)),
    }
