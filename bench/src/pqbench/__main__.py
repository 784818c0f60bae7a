"""The bench inside its container: `run MODE` prints one JSON object and tells what it does on standard error.

It ends with its standard input: whoever started it holds the other end of that pipe, so that it cannot
outlive its driver. Exit codes: 0 done (targets met or not), 1 the bench itself failed, 3 its driver went
away, 4 too long.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Final

from pqbase.documents import Json, texts_of
from pqbase.text import utc_text
from pqbench import accounting, document, flood, floor, forwarding, handshakes, native, rekeys, targets
from pqbench.errors import BenchError, DocumentError
from pqbench.machine import Reading, facts, verdict
from pqbench.peers import running
from pqbench.plan import PLANS, Plan
from pqbench.spaces import spaces
from pqbench.table import not_run, render
from pqbench.tls import tls
from pqbench.tunnel import tunnel

EXIT_FAILED: Final = 1
EXIT_ABANDONED: Final = 3
EXIT_TOO_LONG: Final = 4
FORWARDING_SUITE: Final = "cs-mlkem768-aesgcm-mldsa65"
SCHEMA: Final = "pqlab/bench/v3"


def tell(text: str) -> None:
    """Progress, for people."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def _leave(code: int) -> None:
    # The container's init ends every process and namespace with us: nothing has to be asked to stop.
    os._exit(code)


def _watch(limit_s: float) -> None:
    def driver() -> None:
        while os.read(0, 4096):
            continue
        tell("the driver went away: ending everything")
        _leave(EXIT_ABANDONED)

    def clock() -> None:
        tell(f"not done after {limit_s:.0f} s: ending everything")
        _leave(EXIT_TOO_LONG)

    threading.Thread(target=driver, daemon=True).start()
    timer = threading.Timer(limit_s, clock)
    timer.daemon = True
    timer.start()


def run(plan: Plan) -> Json:
    """Everything, in one run."""
    before = Reading.now()
    tell(f"mode {plan.mode}; load average {before.load[0]:.2f} before")
    with spaces() as where, tunnel(where) as ends:
        hello = ends.gcs.ask(do="hello")
        wanted = [name for name in texts_of(hello, "suite_ids") if fnmatch.fnmatch(name, plan.suites)]
        limit_s = plan.handshakes_limit_s
        waking = floor.wake_up(where)
        floors = floor.Floors(where, plan.handshakes, limit_s)
        suites, link = handshakes.suites(where, ends, floors, wanted, plan.handshakes, limit_s, tell)
        link_tls = native.one_suite(where, targets.TLS_SUITE, plan.tls, limit_s)
        server_floor = floor.measure(where, targets.TLS_SUITE, "server", plan.tls, limit_s)
        signing = handshakes.one_suite(ends, targets.TLS_SUITE, plan.tls, 5, limit_s, "signature")
        signing_floor = floor.measure(where, targets.TLS_SUITE, "mutual", plan.tls, limit_s)
        shakes: Json = {
            "wake_up": waking,
            "suites": suites,
            "link": link,
            "link_tls": link_tls | floor.beside(targets.TLS_SUITE, link_tls, server_floor),
            "link_rate": native.rate(where, targets.TLS_SUITE, plan.rate_s),
            "floors": floors.all(),
            "signing_drone": signing | floor.beside(targets.TLS_SUITE, signing, signing_floor),
            "signing_floor": signing_floor,
            "tls_mutual": tls(where, "tls_peer", "mutual", plan.tls),
            "awslc_mutual": tls(where, "awslc", "mutual", plan.tls),
            "tls_server": tls(where, "tls_peer", "server", plan.tls),
            "awslc_server": tls(where, "awslc", "server", plan.tls),
            "rosenpass": handshakes.rosenpass(where, plan.rosenpass),
        }
        accounted = accounting.run(ends, plan.accounting_rounds, tell)
        ends.connect(FORWARDING_SUITE)
        with running(where, ends) as (forwarders, missing):
            taken = forwarding.rounds(where, forwarders, forwarding.loads(plan.load_s), plan.rounds, tell)
        tell("forged flood")
        flooded = flood.run(where, ends, plan.flood_s)
    tell("rekey")
    rekeyed = rekeys.run(plan.rekey_full) if plan.rekey else {"missing": f"not part of mode {plan.mode}"}
    result: Json = {
        "schema": SCHEMA,
        "utc": utc_text(time.time_ns()),
        "mode": plan.mode,
        "facts": facts(),
        "dataplane": hello["dataplane"],
        "suite_id": FORWARDING_SUITE,
        "handshakes": shakes,
        "accounting": accounted,
        "forwarding": {
            "missing": missing,
            "loads": forwarding.summaries(taken),
            "rounds": forwarding.raw(taken),
        },
        "flood": flooded,
        "rekey": rekeyed,
        "machine": verdict(before, Reading.now()),
    }
    result["targets"] = targets.rows(result)
    for name, why in not_run(result):
        tell(f"DID NOT RUN: {name}: {why}")
    return result


def read(path: Path) -> Json:
    """A run of this version. Raises DocumentError of another's."""
    result: Json = json.loads(path.read_text())
    if result.get("schema") != SCHEMA:
        raise DocumentError(
            f"{path} is {result.get('schema')}, this bench writes tables of {SCHEMA}", hint="make bench"
        )
    return result


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="pqbench", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("run", help="run and print JSON").add_argument("mode", choices=tuple(PLANS))
    verbs.add_parser("table", help="print the tables of a run").add_argument("json", type=Path)
    writing = verbs.add_parser("document", help="write a run's tables between a document's markers")
    writing.add_argument("json", type=Path)
    writing.add_argument("document", type=Path)
    given = parser.parse_args()
    try:
        if given.verb == "run":
            plan = PLANS[given.mode]
            _watch(plan.limit_s)
            json.dump(run(plan), sys.stdout, indent=1)
            return 0
        result = read(given.json)
        if given.verb == "table":
            print(render(result))
        else:
            given.document.write_text(document.with_figures(given.document.read_text(), render(result)))
    except BenchError as error:
        print(error.text(coded=True), file=sys.stderr)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
