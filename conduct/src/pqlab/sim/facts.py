"""What the simulated hosts say of themselves: that they are none."""

from __future__ import annotations

import random
from pathlib import Path

import pqspec
import pqtunnel
from pqbase.documents import Json
from pqlab.sim.machine import SimMachine
from pqlab.sim.primitives import SimPrimitives
from pqtunnel import PROTOCOL_VERSION, __version__
from pqtunnel.primitives.providers import tree_sha256
from pqtunnel.suites import AEADS, KEMS, SIGS

#: the simulation is of Python by design: nothing native is due in it
PLANE = "python"
#: what carries a simulated cell: the specification, and what of the tunnel it stands on
TUNNEL = tuple(Path(package.__path__[0]) for package in (pqtunnel, pqspec))
_WHY = "virtual time has no sensors"


def host(machine: SimMachine) -> Json:
    """Host facts of drone, gcs and controller alike: nothing of this machine enters a simulated bundle."""
    return {
        "machine": "simulated",
        "cpu_model": "none: virtual time",
        "cpu_count": 1,
        "cpu_features": [],
        "kernel": "none: virtual time",
        "board_revision": None,
        "in_container": False,
        **machine.facts(),
    }


def controller_facts(machine: SimMachine) -> Json:
    """hosts/controller.json of a simulated run."""
    return {"host": host(machine), "python": "none: virtual time"}


def hello_facts(suite_ids: tuple[str, ...], machine: SimMachine) -> Json:
    """The part of `hello` that both ends share."""
    return {
        "agent_version": __version__,
        "protocol_version": PROTOCOL_VERSION,
        "ring": "sim",
        "host": host(machine),
        "providers": providers(),
        "suites": {suite_id: {"status": "available", "reason": None} for suite_id in suite_ids},
        "selftest": selftest(),
        "sensors": [
            {"name": name, "available": False, "reason": _WHY}
            for name in ("thermal", "power", "steal", "pressure", "runqueue")
        ],
        "traffic": {"available": True, "sources": ["auto", "embedded", "bulk"], "auto": "embedded"},
        "timestamp_source": "virtual",
        "dataplane": PLANE,
        "dataplane_asked": PLANE,
    }


def providers() -> Json:
    """Builds: the stand-ins by the hash of their source, in the places of what they stand in for."""
    here = Path(__file__).resolve().parent
    stand_in = {"version": "stand-in", "sha256": tree_sha256(here)}
    return {
        "python": "none: virtual time",
        "openssl": "stand-in",
        "liboqs": stand_in,
        "pqtunnel": {"version": __version__, "tree_sha256": tree_sha256(*TUNNEL)},
    }


def selftest() -> Json:
    """Every stand-in once there and back. They have no known answers but their own."""
    rng = random.Random("sim selftest")
    primitives = SimPrimitives(rng, lambda _ns: None)
    good: dict[str, bool] = {}
    for token in KEMS:
        kem = primitives.kem(token)
        pair = kem.generate()
        ciphertext, secret = kem.encapsulate(pair.public)
        good[f"kem/{token}"] = kem.decapsulate(pair, ciphertext) == secret
    for token in SIGS:
        sig = primitives.sig(token)
        public, private = sig.generate()
        signature = sig.sign(private, b"message")
        right = sig.verify(public, b"message", signature)
        good[f"sig/{token}"] = right and not sig.verify(public, b"massage", signature)
    for token, aead in AEADS.items():
        key = primitives.aead(token).new(rng.randbytes(aead.key_bytes))
        nonce = rng.randbytes(aead.nonce_bytes)
        good[f"aead/{token}"] = key.open(nonce, key.seal(nonce, b"text", b"head"), b"head") == b"text"
    items = [{"name": n, "ok": ok, "detail": "stand-in, there and back"} for n, ok in sorted(good.items())]
    return {"ok": all(good.values()), "items": items}
