"""TLS 1.3 with the tunnel's algorithms, by OpenSSL and by AWS-LC: same certificates, command line, clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, Literal

from pqbase.documents import Json
from pqbase.stats import tail
from pqbench.children import child, output_of
from pqbench.errors import ChildFailed, PeerMissing
from pqbench.figures import median, rounded
from pqbench.peers import binary
from pqbench.spaces import ADDRESS, Spaces

TLS_PORT: Final = "45100"
DONE: Final = "server and client authenticated, the client has read the server's confirmation"
WARM_UP: Final = "5"

Program = Literal["tls_peer", "awslc"]
"""OpenSSL's and AWS-LC's."""


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


def tls(where: Spaces, name: Program, kind: Literal["mutual", "server"], count: int) -> Json:
    """TLS 1.3, ML-KEM-768 and ML-DSA-65, over the same veth; `kind`: who shows a certificate."""
    try:
        program = binary(name)
        folder = Path("/tmp/tls")
        _certificates(folder)
        options = (str(folder), ADDRESS["gcs"], TLS_PORT, kind)
        with child(f"{name} server ({kind})", where.at("gcs", program, "server", *options)) as server:
            server.wait_ready()
            client = where.at("drone", program, "client", *options)
            output_of([*client, WARM_UP])  # as the tunnel's processes are warm
            taken = json.loads(output_of([*client, str(count)]))
    except (PeerMissing, ChildFailed) as error:
        return {"missing": str(error)}
    confirmed = [row["confirmed_ms"] for row in taken["handshakes"]]
    return {
        "library": taken["library"],
        "authentication": kind,
        "n": len(confirmed),
        "ends_when": DONE,
        "wall_ms": confirmed,
        "wall_median_ms": rounded(median(confirmed)),
        "wall_p95_ms": rounded(tail(confirmed, 0.95)),
        "client_finished_median_ms": rounded(median([row["finished_ms"] for row in taken["handshakes"]])),
    }
