"""The native parts' own targets (tunnel/core/fuzz, tunnel/link/fuzz): what no Python target can look into."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class NativeTarget:
    """One binary of a crate's `fuzz` folder."""

    about: str
    binary: str
    code: tuple[str, ...]
    """As Target.code."""
    crate: str = "tunnel/core"

    @property
    def seeds(self) -> Path:
        """The folder of its committed inputs."""
        return ROOT / self.crate / "fuzz" / "seeds" / self.binary

    @property
    def build(self) -> str:
        """The command that builds it."""
        return f"{self.crate}/fuzz/run 0"

    @property
    def program(self) -> Path | None:
        """The built binary; None before `build` has built it."""
        top = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / self.crate / "fuzz" / "target"))
        return next(top.glob(f"*/release/{self.binary}"), None)


_SOURCE = "tunnel/core/src/"
_LINK = "tunnel/link/src/"

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
    "link-frames": NativeTarget(
        "frames of the handshake, native",
        "frames",
        (_LINK + "wire.rs", _LINK + "suite.rs", _LINK + "registry.rs"),
        "tunnel/link",
    ),
    "link-knocks": NativeTarget(
        "first frames, cookies, Retry and EarlyHello between drones and a station, native",
        "knocks",
        tuple(
            _LINK + name for name in ("wire.rs", "first.rs", "cookie.rs", "machine.rs", "gcs.rs", "drone.rs")
        ),
        "tunnel/link",
    ),
}
