"""Settings of the services: environment first, command line over it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pqsitl.control import CONTROL_PORT
from pqsitl.errors import SpecError
from pqsitl.net import parse_address
from pqsitl.streams_name import MEASURED, STREAMS_VARIABLE, checked


def _port(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    if not text:
        return default
    if not text.isdigit() or int(text) > 65535:
        raise SpecError(f"{name} is {text!r}, not a port", f"leave it out for {default}")
    return int(text)


@dataclass(frozen=True)
class Settings:
    """Addresses are (host, port); None where this role has no use for one."""

    vehicle_target: tuple[str, int] | None
    direct_target: tuple[str, int] | None
    listen_host: str
    control_port: int
    sink_port: int
    sitl_binary: Path | None
    sitl_defaults: Path | None
    vehicle_streams: str = MEASURED
    """What the embedded vehicle sends by itself: `measured` or `default`."""

    @classmethod
    def from_environment(cls, role: str, environment: Mapping[str, str] | None = None) -> Settings:
        """Read PQ_VEHICLE_TARGET, PQ_DIRECT_TARGET, PQ_LISTEN_HOST, PQ_CONTROL_PORT, PQ_SINK_PORT,
        PQ_VEHICLE_STREAMS, SITL_BINARY and SITL_DEFAULTS; SpecError names a malformed one."""
        values = os.environ if environment is None else environment
        vehicle = values.get("PQ_VEHICLE_TARGET")
        direct = values.get("PQ_DIRECT_TARGET")
        if role == "vehicle" and not vehicle:
            raise SpecError(
                "PQ_VEHICLE_TARGET is not set", "set it to MAVProxy's address, like 198.18.1.11:14550"
            )
        binary, defaults = values.get("SITL_BINARY"), values.get("SITL_DEFAULTS")
        return cls(
            vehicle_target=parse_address(vehicle, "PQ_VEHICLE_TARGET") if vehicle else None,
            direct_target=parse_address(direct, "PQ_DIRECT_TARGET") if direct else None,
            listen_host=values.get("PQ_LISTEN_HOST", "0.0.0.0"),
            control_port=_port(values, "PQ_CONTROL_PORT", CONTROL_PORT),
            sink_port=_port(values, "PQ_SINK_PORT", 47014 if role == "vehicle" else 47012),
            sitl_binary=Path(binary) if binary else None,
            sitl_defaults=Path(defaults) if defaults else None,
            vehicle_streams=checked(values.get(STREAMS_VARIABLE) or MEASURED),
        )
