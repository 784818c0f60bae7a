"""Settings of one endpoint, read once from the environment; command-line options of the same meaning win.

In scope: names, defaults, parsing and range checks. Not in scope: opening anything.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pqbase.net import host_and_port
from pqtunnel.errors import TunnelError

Role = Literal["drone", "gcs"]
Address = tuple[str, int]

HANDSHAKE_PORT: Final = 46000
SEALED_PORT: Final[dict[Role, int]] = {"gcs": 46011, "drone": 46012}
PLAINTEXT_IN_PORT: Final[dict[Role, int]] = {"gcs": 47001, "drone": 47003}
CONTROL_PORT: Final = 48080
POWER_SENSORS: Final = ("none", "synthetic", "hwmon", "pmic", "ina219", "ina219-stub", "model")
FAST_POWER: Final = ("ina219", "ina219-stub", "model")
"""Those that a process of their own samples, into a raw file that a cell's stream `power` is cut from."""
RINGS: Final = ("sim", "lab", "hardware")

# One line an option: name of the environment variable, default, what it is. `--help` prints this table.
VARIABLES: Final[tuple[tuple[str, str, str], ...]] = (
    ("PQ_PEER", "", "address of the other end (required at the drone, which dials it, and for plain cells)"),
    ("PQ_BIND", "0.0.0.0", "local address of the handshake, sealed and plaintext sockets"),
    ("PQ_HANDSHAKE_PORT", str(HANDSHAKE_PORT), "TCP port of the handshake at the gcs"),
    ("PQ_SEALED_PORT", "46011 gcs, 46012 drone", "UDP port of sealed datagrams here"),
    ("PQ_PEER_SEALED_PORT", "the other role's", "UDP port of sealed datagrams at the peer"),
    ("PQ_PLAINTEXT_PORT", "47001 gcs, 47003 drone", "UDP port of plaintext in"),
    ("PQ_PLAINTEXT_SOURCE", "127.0.0.1", "the one address plaintext may come from (route mavproxy)"),
    ("PQ_PLAINTEXT_TARGET", "", "host:port plaintext goes to (route mavproxy; required)"),
    ("PQ_DIRECT_SOURCE", "", "the one address plaintext may come from (route direct)"),
    ("PQ_DIRECT_TARGET", "", "host:port plaintext goes to (route direct)"),
    ("PQ_TRAFFIC_CONTROL", "", "host:port of the resident traffic service's control; empty: none"),
    ("PQ_TELEGRAF", "", "host:port of Telegraf's line-protocol listener; empty: none"),
    ("PQ_CONTROL_BIND", "0.0.0.0", "local address of the agent's RPC"),
    ("PQ_CONTROL_PORT", str(CONTROL_PORT), "TCP port of the agent's RPC"),
    ("PQ_RING", "lab", "sim | lab | hardware, written beside every number"),
    ("PQ_KEYS", "/keys", "folder with this role's keys"),
    ("PQ_STATE", "/run/pqtunnel", "folder for counters.json and telemetry"),
    ("PQ_FEED", "", "folder for feed.json, read by a detector on this host; empty: none"),
    ("PQ_TELEMETRY_RATE_HZ", "10", "samples a second of the telemetry child; 0: no telemetry"),
    ("PQ_POWER", "none", "power sensor asked for by name: " + " | ".join(POWER_SENSORS)),
    ("PQ_VERDICTS", "", "folder in which detectors on this host write, one folder each; empty: none"),
    ("PQ_POWER_SETTINGS", "", "settings file of a fast power sensor (docs/POWER.md); empty: defaults"),
)


class ConfigError(TunnelError):
    """A setting is missing or out of range; the message names it."""

    code = "bad_config"


@dataclass(frozen=True)
class Route:
    """Where plaintext of one kind comes from and goes to."""

    name: str
    source: str
    """The only address accepted as sender."""
    target: Address


@dataclass(frozen=True)
class EndpointConfig:
    """Everything an endpoint and its agent need to know about their surroundings."""

    role: Role
    peer: str
    bind: str
    handshake_port: int
    sealed_port: int
    peer_sealed_port: int
    plaintext_port: int
    routes: dict[str, Route]
    traffic_control: Address | None
    telegraf: Address | None
    control_bind: str
    control_port: int
    ring: str
    keys: Path
    state_dir: Path
    telemetry_rate_hz: int
    power: str
    token_burst: int = 1000
    """Connections one source may open at once before it is slowed down."""
    tokens_per_s: float = 300.0
    half_open_limit: int = 64
    """Handshakes in progress at the gcs, all sources together; beyond it the oldest stranger gives way."""
    """native | python | auto: native where its wheel is installed."""
    power_settings: Path | None = None
    verdicts: Path | None = None
    """Where detectors on this host write their verdicts; only read here."""
    feed_dir: Path | None = None
    """Where feed.json goes while a cell with a feed is held; None: nowhere."""

    @classmethod
    def from_environment(cls, role: Role, environment: Mapping[str, str] | None = None) -> EndpointConfig:
        """Build from PQ_* variables; raises ConfigError that names the variable."""
        env = os.environ if environment is None else environment
        other: Role = "gcs" if role == "drone" else "drone"
        peer = env.get("PQ_PEER", "")
        if role == "drone" and not peer:
            raise ConfigError(
                "PQ_PEER is not set: the drone does not know where to dial",
                hint="set PQ_PEER to the gcs address, for instance 198.18.2.30",
            )
        routes = {"mavproxy": _route("mavproxy", "PLAINTEXT", env, required=True)}
        direct = _route("direct", "DIRECT", env, required=False)
        if direct is not None:
            routes["direct"] = direct
        ring = env.get("PQ_RING", "lab")
        if ring not in RINGS:
            raise ConfigError(f"PQ_RING is {ring!r}", hint="one of " + ", ".join(RINGS))
        power = env.get("PQ_POWER", "none")
        if power not in POWER_SENSORS:
            raise ConfigError(f"PQ_POWER is {power!r}", hint="one of " + ", ".join(POWER_SENSORS))
        settings = env.get("PQ_POWER_SETTINGS", "")
        dataplane = env.get("PQ_DATAPLANE", "")
        # Said, not ignored: who set it would measure something else.
        if dataplane not in ("", "auto", "native"):
            raise ConfigError(
                f"PQ_DATAPLANE is {dataplane!r}, and the tunnel is native alone",
                hint="leave PQ_DATAPLANE out; the Python specification runs in the tests and in ring sim",
            )
        return cls(
            role=role,
            peer=_resolved(peer, "PQ_PEER") if peer else "",
            bind=env.get("PQ_BIND", "0.0.0.0"),
            handshake_port=_port(env, "PQ_HANDSHAKE_PORT", HANDSHAKE_PORT),
            sealed_port=_port(env, "PQ_SEALED_PORT", SEALED_PORT[role]),
            peer_sealed_port=_port(env, "PQ_PEER_SEALED_PORT", SEALED_PORT[other]),
            plaintext_port=_port(env, "PQ_PLAINTEXT_PORT", PLAINTEXT_IN_PORT[role]),
            routes={name: route for name, route in routes.items() if route is not None},
            traffic_control=_optional_address(env, "PQ_TRAFFIC_CONTROL"),
            telegraf=_optional_address(env, "PQ_TELEGRAF"),
            control_bind=env.get("PQ_CONTROL_BIND", "0.0.0.0"),
            control_port=_port(env, "PQ_CONTROL_PORT", CONTROL_PORT),
            ring=ring,
            keys=Path(env.get("PQ_KEYS", "/keys")),
            state_dir=Path(env.get("PQ_STATE", "/run/pqtunnel")),
            telemetry_rate_hz=_number(env, "PQ_TELEMETRY_RATE_HZ", 10, 0, 1000),
            power=power,
            power_settings=Path(settings) if settings else None,
            verdicts=Path(env["PQ_VERDICTS"]) if env.get("PQ_VERDICTS") else None,
            feed_dir=Path(env["PQ_FEED"]) if env.get("PQ_FEED") else None,
        )


def _number(env: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = env.get(name, "") or str(default)
    try:
        value = int(text)
    except ValueError as error:
        raise ConfigError(f"{name} is {text!r}, not a whole number", hint=f"{least} to {most}") from error
    if not least <= value <= most:
        raise ConfigError(f"{name} is {value}", hint=f"{least} to {most}")
    return value


def _port(env: Mapping[str, str], name: str, default: int) -> int:
    return _number(env, name, default, 0, 65535)


def parse_address(text: str, name: str) -> Address:
    """`host:port` as a pair; raises ConfigError naming `name`."""
    try:
        return host_and_port(text)
    except ValueError as error:
        raise ConfigError(f"{name} is {text!r}", hint="host:port, for instance 198.18.1.11:47004") from error


def _optional_address(env: Mapping[str, str], name: str) -> Address | None:
    text = env.get(name, "")
    return parse_address(text, name) if text else None


def _resolved(host: str, name: str) -> str:
    """IPv4 address of `host`: peers are compared by address, so names are looked up once, at start."""
    try:
        return socket.gethostbyname(host)
    except OSError as error:
        raise ConfigError(
            f"{name}: {host!r} does not resolve ({error})", hint="give an IPv4 address"
        ) from error


def _route(name: str, stem: str, env: Mapping[str, str], *, required: bool) -> Route | None:
    target = env.get(f"PQ_{stem}_TARGET", "")
    if not target:
        if required:
            raise ConfigError(
                f"PQ_{stem}_TARGET is not set",
                hint="set it to host:port of the plaintext peer, for instance 198.18.1.11:47004",
            )
        return None
    host, port = parse_address(target, f"PQ_{stem}_TARGET")
    source = env.get(f"PQ_{stem}_SOURCE", "") or host
    return Route(name, _resolved(source, f"PQ_{stem}_SOURCE"), (_resolved(host, f"PQ_{stem}_TARGET"), port))
