"""`pqlab live`: the running campaign as a page on 127.0.0.1, from its status file and InfluxDB."""

from __future__ import annotations

import argparse

from pqevidence.errors import EXIT_OK
from pqevidence.paths import results_dir, shown
from pqlab.cli.common import add_out, add_pair, print_json
from pqlab.influx import InfluxView
from pqlab.inventory import load_inventory
from pqlab.lab_number import lab_number
from pqlab.live.server import DEFAULT_PORT, LiveServer, checked_port
from pqlab.live.snapshot import Snapshot

HELP = "show the running campaign on a page of this machine (Ctrl-C ends it)"
#: a page that waits for a database longer than this is no live view
INFLUX_TIMEOUT_S = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--inventory", metavar="FILE", help="names the database (default: the container lab's)"
    )
    add_pair(parser)
    parser.add_argument(
        "--port",
        type=int,
        metavar="N",
        help=f"port on 127.0.0.1 (default: {DEFAULT_PORT}, LAB=2 {DEFAULT_PORT + 100}; 0: any that is free)",
    )
    parser.add_argument("--once", action="store_true", help="print the document once, serve nothing")
    add_out(parser)


def run(args: argparse.Namespace) -> int:
    """Raises UsageError for a port that is none, LabError for one that is taken or an inventory that cannot
    be read; ends by Ctrl-C (130)."""
    port = lab_number().port(DEFAULT_PORT) if args.port is None else args.port
    checked_port(port)
    inventory = load_inventory(args.inventory, pair=args.pair)
    view = None
    if inventory.influx_url is not None:
        view = InfluxView(inventory.influx_url, inventory.influx_database, timeout_s=INFLUX_TIMEOUT_S)
    doctor = f"./pqlab doctor --inventory {shown(inventory.file)}"
    snapshot = Snapshot(results_dir(args.out), view, doctor=doctor)
    if args.once:
        print_json(snapshot.document())
        return EXIT_OK
    with LiveServer(port, snapshot) as server:
        if args.json:
            print_json({"url": server.url})
        else:
            print(f"live view: {server.url}  (Ctrl-C ends it)", flush=True)
        server.serve_forever()
    return EXIT_OK
