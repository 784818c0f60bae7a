"""`pqlab fly`: an open-ended session on the running container lab, with a port for a ground station."""

from __future__ import annotations

import argparse
import contextlib
import secrets
import sys
import threading
from collections.abc import Callable
from typing import Final

from pqbase.text import utc_basic
from pqevidence.errors import EXIT_OK, LabError, UsageError
from pqevidence.paths import results_dir, shown
from pqlab.campaign.agents import AgentFailure, Pair, tls_connector
from pqlab.campaign.attack import AttackControl, AttackFailure
from pqlab.campaign.clock import SystemClock
from pqlab.campaign.faults import container_of, engine_words
from pqlab.campaign.link import LinkControl, LinkFailure
from pqlab.campaign.link_start import start_profile
from pqlab.cli.common import add_out, print_json
from pqlab.cli.run import controller
from pqlab.fly.book import FOLDER, FlightBook
from pqlab.fly.commands import COMMANDS, Command, attack_of, link_of, parse, suite_of
from pqlab.fly.lines import Lines
from pqlab.fly.port import TCP_PORT, UDP_PORT, GroundPort, checked_port
from pqlab.fly.session import RATE_HZ, Session
from pqlab.inventory import load_inventory
from pqlab.lab_number import lab_number

HELP = "fly the vehicle through the tunnel with a ground station of your own; nothing is measured"
SUITE: Final = "cs-mlkem768-aesgcm-mldsa65"
GROUND: Final = "mavproxy-gcs"
LEAST_HZ, MOST_HZ = 10.0, 1000.0
_LOOK_EVERY_S: Final = 0.25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--suite", default=SUITE, metavar="ID", help=f"one of the 72 (default: {SUITE})")
    parser.add_argument(
        "--link", default="off", metavar="PROFILE", help="link overlay, such as radio-sik-64k"
    )
    parser.add_argument(
        "--attack", default="off", metavar="KIND", help="ten seconds of foreign traffic once it flies"
    )
    parser.add_argument(
        "--for-s", type=_positive_s, metavar="N", help="end by itself after N seconds (default: never)"
    )
    parser.add_argument(
        "--rate-hz",
        type=_rate_hz,
        default=RATE_HZ,
        metavar="N",
        help=f"frames a second that the vehicle sends (default: {RATE_HZ:g}; less for a narrow radio)",
    )
    parser.add_argument(
        "--udp-port",
        type=int,
        metavar="N",
        help=f"where a ground station of this machine listens (default: {UDP_PORT}, LAB=2 {UDP_PORT + 100};"
        " 0: nowhere)",
    )
    parser.add_argument(
        "--tcp-port",
        type=int,
        metavar="N",
        help=f"where one may connect (default: {TCP_PORT}, LAB=2 {TCP_PORT + 100}; 0: any that is free)",
    )
    add_out(parser)


def _positive_s(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds <= 86_400.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0, up to a day")
    return seconds


def _rate_hz(text: str) -> float:
    try:
        rate_hz = float(text)
    except ValueError:
        rate_hz = 0.0
    if not LEAST_HZ <= rate_hz <= MOST_HZ:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {LEAST_HZ:g} to {MOST_HZ:g}")
    return rate_hz


def run(args: argparse.Namespace) -> int:
    """0 when it ended by `quit`, by the end of input or after --for-s. Raises UsageError for names that are
    none, LabError where the lab or a port is not to be had, KeyboardInterrupt (130) by Ctrl-C; the session
    is undone in all cases."""
    suite_id, link = suite_of(args.suite), link_of(args.link)
    attack_of(args.attack)
    lab = lab_number()
    udp_port = lab.port(UDP_PORT) if args.udp_port is None else args.udp_port
    tcp_port = lab.port(TCP_PORT) if args.tcp_port is None else args.tcp_port
    checked_port(udp_port, "--udp-port")
    checked_port(tcp_port, "--tcp-port")
    inventory = load_inventory(None)
    told = sys.stderr if args.json else sys.stdout

    def say(text: str) -> None:
        print(text, file=told, flush=True)

    with controller(inventory), contextlib.ExitStack() as held:
        clock = SystemClock()
        pair = Pair(inventory, tls_connector(inventory))
        held.callback(pair.close)
        name = f"{utc_basic(clock.realtime_ns())}-{secrets.token_hex(3)}"
        book_of: list[FlightBook] = []

        def tell(kind: str, who: str) -> None:
            for book in book_of:
                book.event(kind, at=who)
            say(
                "a ground station came: " + who
                if kind == "ground_station"
                else "a ground station left: " + who
            )

        port = GroundPort(udp_port, tcp_port, tell)
        held.callback(port.close)
        ground = _address(inventory.compose_project)
        folder = results_dir(args.out) / FOLDER / name
        book = FlightBook(folder, clock)
        book_of.append(book)
        router, attacker = LinkControl(), AttackControl()
        held.callback(router.close)
        held.callback(attacker.close)
        session = Session(
            pair,
            clock,
            book,
            say,
            router,
            attacker,
            _services(router, attacker, say),
            f"fly-{name}",
            args.rate_hz,
        )
        why = "an error"
        try:
            port.begin((ground, session.begin(suite_id, link)))
            _invite(say, port, udp_port)
            if args.attack != "off":
                session.do(Command("attack", args.attack))
            why = _fly(session, port, Lines(sys.stdin), args.for_s, say)
        except KeyboardInterrupt:
            why = "Ctrl-C, or a request to end"
            raise
        except LabError as error:
            why = error.what
            raise
        finally:
            session.end(why, port.counts.as_dict())
            say(f"ended by {why}; flown, not measured: {shown(folder)}")
    if args.json:
        print_json({"flown": shown(folder), "measured": False, "ended": why})
    return EXIT_OK


def _fly(
    session: Session, port: GroundPort, lines: Lines, for_s: float | None, say: Callable[[str], None]
) -> str:
    """Commands as they come; returns why it is over. Raises LabError where nothing can go on."""
    over = threading.Event()
    if for_s is not None:
        timer = threading.Timer(for_s, over.set)
        timer.daemon = True
        timer.start()
    while True:
        line = lines.next(_LOOK_EVERY_S)
        if line is not None:
            try:
                command = parse(line)
                if command is not None and command.name == "quit":
                    return "quit"
                if command is not None:
                    session.do(command)
            except AgentFailure as error:
                say(error.as_lab_error().text())
            except LabError as error:
                say(error.text())
        try:
            session.tick()
        except AgentFailure as error:
            say(error.as_lab_error().text())
        if port.lost is not None:
            raise LabError(
                "ground-port-lost",
                "the way from the ground port to the vehicle is cut",
                port.lost,
                "make lab-status; docker logs pqlab-mavproxy-gcs-1",
            )
        if over.is_set():
            return f"--for-s {for_s:g}"
        if lines.ended:
            return "the end of input"


def _invite(say: Callable[[str], None], port: GroundPort, udp_port: int) -> None:
    doors = [f"TCP 127.0.0.1:{port.tcp_port} takes ground stations that connect"]
    if udp_port:
        doors.insert(0, f"UDP 127.0.0.1:{udp_port} is sent to, where they listen")
    say("ground port: " + "; ".join(doors) + "  (docs/FLY.md)")
    say(f"commands: {', '.join(COMMANDS)}; Ctrl-C ends")


def _services(
    router: LinkControl, attacker: AttackControl, say: Callable[[str], None]
) -> Callable[[str], None]:
    """Brings the services of a profile up where they do not answer."""

    def bring_up(profile: str) -> None:
        try:
            router.hello() if profile == "link" else attacker.hello()
        except (LinkFailure, AttackFailure):
            say(f"starting the services of profile {profile}")
            start_profile(profile)

    return bring_up


def _address(project: str | None) -> str:
    """Address of the ground's container on the lab's internal network. Raises LabError without one."""
    if project is None:
        raise UsageError(
            "no-containers",
            "only the container lab is flown",
            "this inventory's hosts are no containers",
            "make lab-up, then ./pqlab fly",
        )
    told = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
    found = engine_words(["docker", "inspect", "-f", told, container_of(project, GROUND)])
    if not found:
        raise LabError(
            "no-ground", f"the container of {GROUND} has no address", "it does not run", "make lab-status"
        )
    return found[0]
