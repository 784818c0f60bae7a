"""The native core's own targets (cargo-fuzz, tunnel/core/fuzz): what no Python target can look into."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tunnel" / "core" / "fuzz"


@dataclass(frozen=True)
class NativeTarget:
    """One binary of `tunnel/core/fuzz`."""

    about: str
    binary: str
    code: tuple[str, ...]
    """As Target.code."""

    @property
    def seeds(self) -> Path:
        """The folder of its committed inputs."""
        return FOLDER / "seeds" / self.binary

    @property
    def program(self) -> Path | None:
        """The built binary; None before `tunnel/core/fuzz/run 0` has built it."""
        top = Path(os.environ.get("CARGO_TARGET_DIR", FOLDER / "target"))
        return next(top.glob(f"*/release/{self.binary}"), None)


_SOURCE = "tunnel/core/src/"

TARGETS = {
    "core-receive": NativeTarget(
        "trains from the network through the native session",
        "receive",
        tuple(
            _SOURCE + name
            for name in ("session.rs", "replay.rs", "packet.rs", "outcome.rs", "aead.rs", "udp.rs")
        ),
    ),
    "core-path": NativeTarget(
        "control payloads and answered challenges, native",
        "path_control",
        (_SOURCE + "path.rs", _SOURCE + "packet.rs"),
    ),
}
