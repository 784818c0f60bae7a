"""The simulated identities of one run, from its seed: they protect nothing, and are held like real ones."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from pqlab.sim.primitives import SimPrimitives
from pqspec.handshake.psks import PskStore
from pqspec.handshake.secrets import clear
from pqtunnel.handshake.identity import DronePsk, GcsIdentity, GcsPublicIdentity
from pqtunnel.suites import SIGS


@dataclass(frozen=True)
class Identities:
    """One drone and one gcs that know each other."""

    psk: DronePsk
    gcs: GcsIdentity
    psks: PskStore

    @classmethod
    def from_seed(cls, seed: int) -> Identities:
        """Equal seeds give equal keys."""
        rng = random.Random(f"sim identities/{seed}")
        primitives = SimPrimitives(rng, lambda _ns: None)
        pairs = {token: primitives.sig(token).generate() for token in SIGS}
        public = GcsPublicIdentity({token: pair[0] for token, pair in pairs.items()})
        psk = DronePsk(rng.randbytes(8), rng.randbytes(32))
        gcs = GcsIdentity(public, {token: pair[1] for token, pair in pairs.items()})
        return cls(psk, gcs, PskStore([psk]))

    def write_secrets(self, folder: Path) -> None:
        """The secrets as files, so that the bundle is searched for them before it is sealed."""
        (folder / "psk.secret").write_bytes(clear(self.psk.psk))
        for token, secret in self.gcs.secrets.items():
            (folder / f"{token}.secret").write_bytes(clear(secret))
