"""Count sealed datagrams on an interface, one JSON line a window of 0.6 s. Needs Linux and NET_RAW."""

from __future__ import annotations

import argparse
import ipaddress
import json
import time

from pqdetect.errors import UsageError
from pqdetect.sniffer import Sniffer

HELP = "count sealed datagrams on an interface"
WINDOW_NS = 600_000_000


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--interface", required=True)
    parser.add_argument("--port", type=int, default=46012, help="UDP port (default 46012, the drone's)")
    parser.add_argument("--windows", type=int, default=100, help="end after so many (default 100)")


def run(args: argparse.Namespace) -> int:
    """Whole windows only: the first begins with the next."""
    if args.windows < 1 or not 0 < args.port < 65_536:
        raise UsageError(f"--windows {args.windows} or --port {args.port} is out of range")
    sniffer = Sniffer(args.interface, args.port)
    try:
        k = time.time_ns() // WINDOW_NS
        sniffer.run_until((k + 1) * WINDOW_NS)
        sniffer.counter.take()
        for number in range(k + 1, k + 1 + args.windows):
            before_ns = time.process_time_ns()
            sniffer.run_until((number + 1) * WINDOW_NS)
            seen = sniffer.counter.take()
            spent_us = (time.process_time_ns() - before_ns) / 1e3
            told = {
                "k": number,
                "datagrams": seen.datagrams,
                "bytes": seen.size_bytes,
                "malformed": seen.malformed,
                "sources": sorted(str(ipaddress.IPv4Address(one)) for one in seen.sources)[:16],
                "cpu_us_per_packet": round(spent_us / seen.datagrams, 2) if seen.datagrams else None,
            }
            print(json.dumps(told), flush=True)
    finally:
        sniffer.close()
    return 0
