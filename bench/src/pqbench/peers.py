"""What carries datagrams from the drone's side to the other, each as one process a side.

Every forwarder has one way in (`entry`, at the drone's side) and one way out (the sink, at the gcs side).
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pqbench.children import Child, child, output_of
from pqbench.errors import ChildFailed, PeerMissing
from pqbench.spaces import ADDRESS, SIDES, Side, Spaces
from pqbench.tunnel import PLAINTEXT_PORT, SINK_PORT, Tunnel

PEERS: Final = Path("/opt/peers")
HOP_PORT: Final[dict[str, tuple[int, int]]] = {
    "bare": (45_010, 45_011), "bare-single": (45_012, 45_013), "bare-again": (45_014, 45_015),
}  # fmt: skip
DTLS_PORT: Final[dict[str, int]] = {"entry": 45_020, "drone": 45_021, "gcs": 45_022}
SIGNED_PORT: Final[dict[Side, int]] = {"drone": 45_024, "gcs": 45_025}
WIREGUARD: Final[dict[str, tuple[str, int]]] = {"wireguard-go": ("wg", 51_820), "boringtun": ("bt", 51_821)}
INNER: Final[dict[str, dict[Side, str]]] = {
    "wireguard-go": {"drone": "198.18.65.1", "gcs": "198.18.65.2"},
    "boringtun": {"drone": "198.18.66.1", "gcs": "198.18.66.2"},
}
START_S: Final = 5.0


@dataclass(frozen=True)
class Forwarder:
    """A running one."""

    name: str
    entry: str
    pids: list[int]
    source: str = ADDRESS["drone"]
    """Address that the load comes from: a WireGuard takes only its own."""


def binary(name: str) -> str:
    """Path of a peer's program. Raises PeerMissing with the reason its build left."""
    path, reason = PEERS / name, PEERS / f"{name}.missing"
    if path.is_file():
        return str(path)
    if reason.is_file():
        raise PeerMissing(f"{name} {reason.read_text().strip()}")
    raise PeerMissing(f"{name} is not in this image")


def of_tunnel(name: str, tunnel: Tunnel) -> Forwarder:
    """The tunnel as a forwarder; it has to be connected."""
    return Forwarder(name, f"{ADDRESS['drone']}:{PLAINTEXT_PORT['drone']}", tunnel.pids)


@contextmanager
def bare(where: Spaces, name: str = "bare") -> Iterator[Forwarder]:
    """Two bare forwarders on the tunnel's own sockets and batches: no crypto, no accounting. `bare-again` is
    another pair of the same: how far it is from the first is what this machine adds to any comparison."""
    first, second = HOP_PORT[name]
    program = binary("bare_forwarder")
    hops: dict[Side, tuple[str, str]] = {
        "drone": (f"{ADDRESS['drone']}:{first}", f"{ADDRESS['gcs']}:{second}"),
        "gcs": (f"{ADDRESS['gcs']}:{second}", f"{ADDRESS['gcs']}:{SINK_PORT}"),
    }
    with ExitStack() as stack:
        ends = [
            stack.enter_context(child(f"{name} {side}", where.at(side, program, *hops[side])))
            for side in SIDES
        ]
        for end in ends:
            end.wait_ready()
        yield Forwarder(name, hops["drone"][0], [end.process.pid for end in ends])


@contextmanager
def bare_single(where: Spaces) -> Iterator[Forwarder]:
    """Two forwarders that move one datagram a system call, without offload."""
    first, second = HOP_PORT["bare-single"]
    program = binary("pqload")
    hops: dict[Side, tuple[str, str]] = {
        "drone": (f"{ADDRESS['drone']}:{first}", f"{ADDRESS['gcs']}:{second}"),
        "gcs": (f"{ADDRESS['gcs']}:{second}", f"{ADDRESS['gcs']}:{SINK_PORT}"),
    }
    with ExitStack() as stack:
        ends = []
        for side in SIDES:
            listen, target = hops[side]
            command = where.at(side, program, "forward", "--listen", listen, "--target", target)
            ends.append(stack.enter_context(child(f"bare-single {side}", command)))
            ends[-1].wait_ready()
        yield Forwarder("bare-single", hops["drone"][0], [end.process.pid for end in ends])


@contextmanager
def dtls13(where: Spaces) -> Iterator[Forwarder]:
    """A session of DTLS 1.3 with TLS_AES_256_GCM_SHA384: a record a datagram, one datagram a system call."""
    program = binary("dtls13")
    entry = f"{ADDRESS['drone']}:{DTLS_PORT['entry']}"
    network = {side: f"{ADDRESS[side]}:{DTLS_PORT[side]}" for side in SIDES}
    ways: dict[Side, list[str]] = {  # who is dialled is there first
        "gcs": [network["gcs"], f"{ADDRESS['gcs']}:{SINK_PORT}"],
        "drone": [network["drone"], network["gcs"], entry],
    }
    with tempfile.TemporaryDirectory() as keys, ExitStack() as stack:
        output_of([program, "keys", keys])
        ends = []
        for side, way in ways.items():
            command = where.at(side, program, side, keys, *way)
            ends.append(stack.enter_context(child(f"dtls13 {side}", command)))
            ends[-1].wait_ready()
        yield Forwarder("dtls13", entry, [end.process.pid for end in ends])


@contextmanager
def mavlink2_signed(where: Spaces) -> Iterator[Forwarder]:
    """Frames of MAVLink 2, each with a signature, none of it hidden; one datagram a system call."""
    program, key = binary("mavlink2-signed"), secrets.token_hex(32)
    entry = f"{ADDRESS['drone']}:{SIGNED_PORT['drone']}"
    between = f"{ADDRESS['gcs']}:{SIGNED_PORT['gcs']}"
    hops: dict[Side, tuple[str, str]] = {
        "drone": (entry, between),
        "gcs": (between, f"{ADDRESS['gcs']}:{SINK_PORT}"),
    }
    with ExitStack() as stack:
        ends = []
        for side in SIDES:
            command = where.at(side, program, side, key, *hops[side])
            ends.append(stack.enter_context(child(f"mavlink2-signed {side}", command)))
            ends[-1].wait_ready()
        yield Forwarder("mavlink2-signed", entry, [end.process.pid for end in ends])


def _command(name: str, interface: str) -> list[str]:
    program = binary(name)
    return [program, "--foreground", interface] if name == "wireguard-go" else [program, interface]


def _wait_for(interface: str, end: Child) -> None:
    socket = Path(f"/run/wireguard/{interface}.sock")
    give_up_s = time.monotonic() + START_S
    while not socket.exists():
        if end.process.poll() is not None or time.monotonic() > give_up_s:
            raise PeerMissing(f"{end.name} does not start: {end.complaints()}")
        time.sleep(0.02)


@contextmanager
def wireguard(where: Spaces, name: str) -> Iterator[Forwarder]:
    """A WireGuard in user space, by its usual control socket; keys are made for this run."""
    if not Path("/dev/net/tun").exists():
        raise PeerMissing(f"{name} needs /dev/net/tun, which is not here")
    stem, port = WIREGUARD[name]
    Path("/run/wireguard").mkdir(exist_ok=True)
    secret = {side: output_of(["wg", "genkey"]).strip() for side in SIDES}
    public = {side: output_of(["wg", "pubkey"], given=secret[side]).strip() for side in SIDES}
    with ExitStack() as stack:
        pids = []
        for side in SIDES:
            interface = f"{stem}-{side}"
            environment = {**os.environ, "LOG_LEVEL": "error"}
            end = stack.enter_context(
                child(f"{name} {side}", where.at(side, *_command(name, interface)), environment)
            )
            _wait_for(interface, end)
            pids.append(end.process.pid)
            other: Side = "gcs" if side == "drone" else "drone"
            key = Path(f"/tmp/{interface}.key")
            key.touch(mode=0o600)
            key.write_text(secret[side])
            output_of(
                where.at(
                    side,
                    "wg",
                    "set",
                    interface,
                    "private-key",
                    str(key),
                    "listen-port",
                    str(port),
                    "peer",
                    public[other],
                    "endpoint",
                    f"{ADDRESS[other]}:{port}",
                    "allowed-ips",
                    f"{INNER[name][other]}/32",
                )
            )
            key.unlink()
            where.ip(side, "address", "add", f"{INNER[name][side]}/24", "dev", interface)
            where.ip(side, "link", "set", interface, "mtu", "1420", "up")
        yield Forwarder(name, f"{INNER[name]['gcs']}:{SINK_PORT}", pids, INNER[name]["drone"])


@contextmanager
def running(where: Spaces, tunnel: Tunnel) -> Iterator[tuple[dict[str, Forwarder], dict[str, str]]]:
    """Every forwarder that starts, and name → reason of every one that does not."""
    with ExitStack() as stack:
        found = {"tunnel": of_tunnel("tunnel", tunnel)}
        missing: dict[str, str] = {}
        makers: dict[str, Callable[[], AbstractContextManager[Forwarder]]] = {
            "bare": lambda: bare(where),
            "bare-again": lambda: bare(where, "bare-again"),
            "bare-single": lambda: bare_single(where),
            "dtls13": lambda: dtls13(where),
            "mavlink2-signed": lambda: mavlink2_signed(where),
            "wireguard-go": lambda: wireguard(where, "wireguard-go"),
            "boringtun": lambda: wireguard(where, "boringtun"),
        }
        for name, make in makers.items():
            try:
                found[name] = stack.enter_context(make())
            except (PeerMissing, ChildFailed) as error:
                missing[name] = str(error)
        yield found, missing
