"""Command line: `pqsitl vehicle | air | ground | health`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from pqbase.ending import STDIN_HELP, STDIN_OPTION, Ending
from pqbase.text import speak_utf8
from pqsitl.control import ControlServer
from pqsitl.errors import ProcessError, SitlError
from pqsitl.service import TrafficService
from pqsitl.settings import Settings

EXIT_FAILED, EXIT_ENVIRONMENT = 1, 4


def build_parser() -> argparse.ArgumentParser:
    """The argument parser; every option has an environment variable of the same meaning."""
    parser = argparse.ArgumentParser(prog="pqsitl", description="Traffic of the lab.")
    roles = parser.add_subparsers(dest="role", required=True)
    for role, text in (
        ("vehicle", "vehicle traffic source: ArduPilot, embedded vehicle, log replay, bulk"),
        ("air", "MAVProxy beside the vehicle"),
        ("ground", "MAVProxy of the ground station, uplink probe, bulk sink"),
        ("health", "ask the service on this host whether it is well"),
    ):
        sub = roles.add_parser(role, help=text, description=text)
        if role == "health":
            continue
        sub.add_argument("--vehicle-target", metavar="HOST:PORT", help="PQ_VEHICLE_TARGET")
        sub.add_argument("--direct-target", metavar="HOST:PORT", help="PQ_DIRECT_TARGET")
        sub.add_argument("--listen-host", metavar="HOST", help="PQ_LISTEN_HOST (0.0.0.0)")
        sub.add_argument("--control-port", metavar="PORT", help="PQ_CONTROL_PORT (48070)")
        sub.add_argument("--sink-port", metavar="PORT", help="PQ_SINK_PORT (vehicle 47014, ground 47012)")
        sub.add_argument("--sitl-binary", metavar="PATH", help="SITL_BINARY")
        sub.add_argument("--sitl-defaults", metavar="PATH", help="SITL_DEFAULTS")
        sub.add_argument(STDIN_OPTION, action="store_true", help=STDIN_HELP)
    return parser


def _settings(arguments: argparse.Namespace) -> Settings:
    import os

    merged = dict(os.environ)
    for option in ("vehicle_target", "direct_target", "listen_host", "control_port", "sink_port"):
        if (value := getattr(arguments, option)) is not None:
            merged[f"PQ_{option.upper()}"] = value
    for option in ("sitl_binary", "sitl_defaults"):
        if (value := getattr(arguments, option)) is not None:
            merged[option.upper()] = value
    return Settings.from_environment(arguments.role, merged)


def _make(role: str, settings: Settings) -> TrafficService:
    from pqsitl import roles

    makers: dict[str, Callable[[Settings], TrafficService]] = {
        "vehicle": roles.VehicleService,
        "air": roles.AirService,
        "ground": roles.GroundService,
    }
    return makers[role](settings)


def serve(role: str, settings: Settings, stop: Ending) -> int:
    """Run a service until `stop`; 0 then, ProcessError when what it supervises has died."""
    service = _make(role, settings)
    try:
        server = ControlServer(settings.listen_host, settings.control_port, service.handle)
        server.serve_in_background()
        print(f"pqsitl {role}: control on TCP {server.port}", file=sys.stderr, flush=True)
        while not stop.wait(0.5):
            trouble = service.trouble
            if isinstance(trouble, ProcessError):
                raise trouble
        server.shutdown()
        server.server_close()
    finally:
        service.close()
    return 0


def main(argv: list[str] | None = None) -> int:
    """Entry point; errors print what, why and the next step."""
    speak_utf8()
    arguments = build_parser().parse_args(argv)
    if arguments.role == "health":
        from pqsitl.health import check

        return check()
    stop = Ending(with_stdin=arguments.stop_with_stdin)
    try:
        return serve(arguments.role, _settings(arguments), stop)
    except SitlError as error:
        print(error.text(f"pqsitl {arguments.role}"), file=sys.stderr)
        return EXIT_FAILED if isinstance(error, ProcessError) else EXIT_ENVIRONMENT
