"""Latencies against the sender's own readings: on one machine a datagram arrives while its send call runs."""

from __future__ import annotations

from itertools import compress
from statistics import median

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.record.dataplane import OTHER, TRAFFIC
from pqevidence.record.raw import ROLES, stamps_of_one_clock
from pqevidence.record.untimed import untimed_reasons

#: of the time from a datagram's arrival at the sender until its send call ended: when the other end's kernel
#: has it, at the earliest. What follows is the way through that kernel, which runs within the same call: in
#: 151 honest cells (230 ways) no median was below 0.53
LEAST_SHARE = 0.35
#: a median of fewer says little
LEAST_DATAGRAMS = 10


def while_sent(cell: CellView, tally: Tally) -> None:
    """With one clock the median datagram of the traffic window reached the receiver's kernel in the later
    part of the sender's handling: sealing comes before, the call's return after. A link may only make it
    later. Asked of native data planes: Python's reads its clock once it has its interpreter back."""
    if cell.run.scenario.get("ring") == "sim" or untimed_reasons(cell.run.hosts):
        return
    if set(cell.raw.ledgers) != set(ROLES) or not stamps_of_one_clock(cell.run, cell.raw):
        return
    for role in ROLES:
        if cell.value("A", f"dataplane_{role}") != "native":
            continue
        sent, got = cell.raw.ledgers[role].tx, cell.raw.ledgers[OTHER[role]].rx
        arrived = dict(zip(got.key, got.t_in_ns, strict=True))
        inside = [window == TRAFFIC for window in sent.window]
        rows = compress(zip(sent.key, sent.t_in_ns, sent.t_out_ns, strict=True), inside)
        shares = [
            (arrived[key] - t_in_ns) / (t_out_ns - t_in_ns)
            for key, t_in_ns, t_out_ns in rows
            if key in arrived and t_out_ns > t_in_ns
        ]
        if len(shares) < LEAST_DATAGRAMS:
            continue
        share = median(shares)
        tally.see(share)
        tally.require(
            share >= LEAST_SHARE,
            f"{cell.label}: the median datagram of {role} reached the other kernel (t_in_ns in "
            f"ledger.{OTHER[role]}.csv) after {share:.2f} of its sending (t_in_ns to t_out_ns in "
            f"ledger.{role}.csv); {LEAST_SHARE} is the least",
        )
    tally.unit = "ways"
