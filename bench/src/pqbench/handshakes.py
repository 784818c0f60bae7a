"""Handshakes: every suite against its own primitives, then the same machine's TLS and Rosenpass beside it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from pqbase.stats import tail
from pqbench.children import child, output_of
from pqbench.errors import ChildFailed, PeerMissing
from pqbench.figures import median, rounded
from pqbench.peers import binary
from pqbench.spaces import ADDRESS, Spaces
from pqbench.tunnel import Tunnel

CRITICAL_PATH: Final = ("keygen", "sign", "verify", "encaps", "decaps")
"""Follow one another in every handshake: no two of them can overlap."""
TLS_PORT: Final = "45100"
ROSENPASS_PORT: Final = 45101
TLS_DONE: Final = "server and client authenticated, the client has read the server's confirmation"


def handshakes_of(rows: dict[str, list[dict[str, Any]]]) -> list[dict[str, float]]:
    """One entry a completed handshake: the drone's wall and the sum of the primitives of both ends, in ms."""
    crypto_ns: dict[str, int] = defaultdict(int)
    wall_ns: dict[str, int] = {}
    steps: dict[str, set[str]] = defaultdict(set)
    for side, spans in rows.items():
        for row in spans:
            length_ns = row["end_ns"] - row["start_ns"]
            if row["step"] == "handshake" and side == "drone":
                wall_ns[row["handshake_id"]] = length_ns
            if row["step"] in CRITICAL_PATH and row["kind"] == "crypto":
                crypto_ns[row["handshake_id"]] += length_ns
                steps[row["handshake_id"]].add(row["step"])
    return [
        {"wall_ms": wall / 1e6, "crypto_ms": crypto_ns[key] / 1e6}
        for key, wall in wall_ns.items()
        if steps[key] == set(CRITICAL_PATH)
    ]


def one_suite(
    tunnel: Tunnel, suite_id: str, count: int, least: int, limit_s: float, drone_auth: str = "psk"
) -> dict[str, Any]:
    """Cold handshakes of one suite: medians with n, or why there are none."""
    try:
        tunnel.prepare(suite_id, drone_auth)
        block = tunnel.drone.ask(do="handshakes", count=count, least=least, limit_s=limit_s)
        rows = {"drone": tunnel.drone.ask(do="spans")["rows"], "gcs": tunnel.gcs.ask(do="spans")["rows"]}
    except ChildFailed as error:
        return {"suite_id": suite_id, "missing": str(error)}
    taken = handshakes_of(rows)
    walls = [row["wall_ms"] for row in taken]
    return {
        "suite_id": suite_id,
        "n": len(taken),
        "failed_count": block["failed"],
        "wall_ms": walls,
        "wall_median_ms": rounded(median(walls)),
        "wall_p95_ms": rounded(tail(walls, 0.95)),
        "crypto_median_ms": rounded(median([row["crypto_ms"] for row in taken])),
        "ratio_median": rounded(median([row["wall_ms"] / row["crypto_ms"] for row in taken])),
        **({} if taken else {"missing": f"no handshake completed: {block['failures'][:1]}"}),
    }


def suites(
    tunnel: Tunnel, suite_ids: list[str], count: int, limit_s: float, tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Every suite: `count` handshakes, or at least 5 where they do not fit `limit_s`."""
    done = []
    for place, suite_id in enumerate(suite_ids, 1):
        done.append(one_suite(tunnel, suite_id, count, min(5, count), limit_s))
        last = done[-1]
        said = last.get("missing") or f"{last['wall_median_ms']} ms, {last['ratio_median']} × crypto"
        tell(f"handshake {place}/{len(suite_ids)} {suite_id}: {said}")
    return done


# ---------------------------------------------------------------------------- TLS 1.3


def _certificates(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in ("server", "client"):
        if not (folder / f"{name}.cert.pem").exists():
            output_of(
                [
                    "openssl",
                    "req",
                    "-x509",
                    "-newkey",
                    "mldsa65",
                    "-nodes",
                    "-days",
                    "2",
                    "-subj",
                    f"/CN=bench-{name}",
                    "-keyout",
                    str(folder / f"{name}.key.pem"),
                    "-out",
                    str(folder / f"{name}.cert.pem"),
                ]
            )


def tls(where: Spaces, kind: Literal["mutual", "server"], count: int) -> dict[str, Any]:
    """OpenSSL TLS 1.3, ML-KEM-768 and ML-DSA-65, over the same veth; `kind`: who shows a certificate."""
    try:
        program = binary("tls_peer")
        folder = Path("/tmp/tls")
        _certificates(folder)
        options = (str(folder), ADDRESS["gcs"], TLS_PORT, kind)
        with child(f"TLS server ({kind})", where.at("gcs", program, "server", *options)) as server:
            server.wait_ready()
            client = where.at("drone", program, "client", *options)
            output_of([*client, "5"])  # warm-up, as the tunnel's processes are warm
            taken = json.loads(output_of([*client, str(count)]))
    except (PeerMissing, ChildFailed) as error:
        return {"missing": str(error)}
    confirmed = [row["confirmed_ms"] for row in taken["handshakes"]]
    return {
        "library": taken["library"],
        "authentication": kind,
        "n": len(confirmed),
        "ends_when": TLS_DONE,
        "wall_ms": confirmed,
        "wall_median_ms": rounded(median(confirmed)),
        "wall_p95_ms": rounded(tail(confirmed, 0.95)),
        "client_finished_median_ms": rounded(median([row["finished_ms"] for row in taken["handshakes"]])),
    }


# ---------------------------------------------------------------------------- Rosenpass


def rosenpass(where: Spaces, count: int) -> dict[str, Any]:
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
