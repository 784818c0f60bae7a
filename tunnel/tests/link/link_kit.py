"""Programs of tunnel/link as tests drive them: `oracle` (a machine, by lines or over TCP), `farm`
(many drones in one process) and `pqlink`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pqtunnel.handshake.identity import DronePsk, GcsIdentity
from pqtunnel.handshake.rekey import RekeyFrom

_CRATE = Path(__file__).resolve().parents[2] / "link"
_FOLDERS = {
    "pqlink": (Path("/opt/pqlink/bin"), _CRATE / "target/release"),
    "oracle": (Path("/opt/pqlink/test"), _CRATE / "target/release/examples"),
    "farm": (Path("/opt/pqlink/test"), _CRATE / "target/release/examples"),
}


def program(name: str) -> str:
    """Path of a built program: this checkout's before the image's. Skips, with the reason, where there is
    none; PQ_REQUIRE_PQLINK makes that a failure."""
    for folder in reversed(_FOLDERS[name]):
        if (folder / name).exists():
            return str(folder / name)
    reason = f"{name} is not built: cd tunnel/link && cargo build --release --locked --bins --examples"
    if os.environ.get("PQ_REQUIRE_PQLINK"):
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass
class Refused(Exception):
    """The Rust machine refused: its reason, its counter, and the whole frame to answer (maybe empty)."""

    reason: str
    counter: str
    answer: bytes


def spec(psk: DronePsk, identity: GcsIdentity, *, secret: bool, **more: object) -> list[str]:
    """What `oracle` takes of a machine; `secret`: with the GCS's signing keys. Bytes become hexadecimal."""
    keys = []
    for token, public in identity.public.keys.items():
        parts = [token, public.hex(), *([identity.secrets[token].hex()] if secret else [])]
        keys.append(":".join(parts))
    given: dict[str, object] = {"id": psk.key_id, "psk": psk.psk, "gcs": ",".join(keys), "level": 1, **more}
    return [f"{name}={v.hex() if isinstance(v, bytes) else v}" for name, v in given.items() if v is not None]


def pair_of(*parts: bytes | bytearray) -> str:
    """Parts of one value."""
    return ":".join(bytes(part).hex() for part in parts)


def old_of(session: RekeyFrom, drone_id: bytes) -> str:
    """A session that may be rekeyed."""
    return f"{session.session_id.hex()}:{session.epoch}:{session.rekey_secret.hex()}:{drone_id.hex()}"


def fields(words: Sequence[str]) -> dict[str, str]:
    """`name=value` words."""
    return dict(word.split("=", 1) for word in words if "=" in word)


class RustMachine:
    """One process of `oracle pipe`; `begin` makes a fresh machine in it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [program("oracle"), "pipe"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.established: Mapping[str, str] = {}

    def _ask(self, line: str) -> bytes:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        words = self._process.stdout.readline().rstrip("\n").split(" ")
        if words[0] == "refused":
            raise Refused(words[1], words[2], bytes.fromhex(words[3].removeprefix("answer=")))
        assert words[0] in {"send", "done"}, f"oracle ended at {line[:60]}"
        if words[0] == "done":
            self.established = fields(words[2:])
        return bytes.fromhex(words[1])

    def begin(self, role: str, machine: Sequence[str]) -> bytes:
        """A fresh machine of this spec, started: what it sends first."""
        self.established = {}
        self._ask(" ".join([role, *machine]))
        return self._ask("start")

    def frame(self, frame: bytes) -> bytes:
        """Deliver one frame; raises Refused."""
        return self._ask(f"frame {frame.hex()}")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()


@contextmanager
def rust_machine() -> Iterator[RustMachine]:
    """A process for machines, ended afterwards."""
    machine = RustMachine()
    try:
        yield machine
    finally:
        machine.close()


def set_keys(config: Path, **changes: str) -> dict[str, int]:
    """Write other values into a configuration; `{}` in one is the port that stood there. Returns the ports
    that stood in the changed keys."""
    ports: dict[str, int] = {}
    lines = []
    for line in config.read_text("utf-8").splitlines():
        key, value = (part.strip().strip('"') for part in line.split("=", 1))
        if key in changes:
            port = value.rsplit(":", 1)[-1]
            if port.isdigit():
                ports[key] = int(port)
            line = f'{key} = "{changes.pop(key).replace("{}", port)}"'
        lines.append(line)
    lines += [f'{key} = "{value}"' for key, value in changes.items()]
    config.write_text("\n".join(lines) + "\n", "utf-8")
    return ports
