"""What run.json says of its run, against plan, scenario, hosts, verdicts and its own sessions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from pqbase.documents import part_of, whole_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView
from pqevidence.record.raw import ROLES

#: from the word that a run begins to its first session: hosts are asked, detectors started
BEGIN_NS = 600 * 10**9
#: two readings of one moment
SAME_NS = 10**9
#: a plan is made when its run begins, and a run is named then; clocks of controller and log may differ
SAME_DAY_S = 86_400.0
BAD = ("fail", "invalid")
FACTS = ("machine", "cpu_model", "cpu_count", "kernel")
_STAMP = re.compile(r"(\d{8}T\d{6}Z)-[0-9a-f]{6}")


def told(bundle: BundleView, tally: Tally) -> None:
    """One name of the scenario, one begin and end, one controller; an exit that its verdicts allow."""
    tally.see()
    for problem in (*_named(bundle), *_times(bundle), *_controller(bundle), *_exit(bundle)):
        tally.fail(problem)


def _named(bundle: BundleView) -> Iterable[str]:
    name = bundle.raw.scenario.get("name")
    for file, document in (("run.json", bundle.raw.run), ("plan.json", bundle.plan)):
        known = document.get("scenario")
        if known not in (None, name):
            yield f"scenario.effective.yml is called {name}, {file} says {known}"


def _times(bundle: BundleView) -> Iterable[str]:
    run = bundle.raw.run
    started_ns, ended_ns = whole_of(run, "started_ns"), run.get("ended_ns")
    sessions = bundle.raw.sessions
    if sessions:
        first_ns, last_ns = whole_of(sessions[0], "started_ns"), sessions[-1].get("ended_ns")
        # a run whose controller died before its first session is gone on with whenever somebody likes
        at_once = sessions[0].get("command") == run.get("command")
        if first_ns - started_ns < -SAME_NS or (at_once and first_ns - started_ns > BEGIN_NS):
            yield f"run.json began at {started_ns}, its first session at {first_ns}"
        if isinstance(last_ns, int) and isinstance(ended_ns, int) and abs(last_ns - ended_ns) > SAME_NS:
            yield f"run.json ended at {ended_ns}, its last session at {last_ns}"
    stamps = {"created_utc of plan.json": (str(bundle.plan.get("created_utc")), "%Y-%m-%dT%H:%M:%SZ")}
    named = _STAMP.fullmatch(str(run.get("run_id")))
    if named and not run.get("lineage"):
        stamps["run_id"] = named[1], "%Y%m%dT%H%M%SZ"
    for what, (text, form) in stamps.items():
        apart_s = datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() - started_ns / 1e9
        # a correction is made whenever somebody makes it, and keeps the plan
        earlier = run.get("corrects") is not None and what != "run_id" and apart_s <= 0
        if abs(apart_s) > SAME_DAY_S and not earlier:
            yield f"{what} is {text}, {apart_s / 86_400:+.1f} days from started_ns {started_ns} of run.json"


def _controller(bundle: BundleView) -> Iterable[str]:
    told_, host = part_of(bundle.raw.run, "controller", {}), part_of(bundle.raw.hosts["controller"], "host")
    for name in FACTS:
        ours, theirs = part_of(told_, "host", {}).get(name, host.get(name)), host.get(name)
        if ours != theirs:
            yield f"{name} of the controller is {ours} in run.json, {theirs} in hosts/controller.json"
    boots = [part_of(bundle.raw.hosts[role], "host").get("boot_id") for role in ROLES]
    # boots may have changed before a run was gone on with, and a correction keeps what it corrects
    resumed = len(bundle.raw.sessions) > 1 or bundle.raw.run.get("corrects") is not None
    beside = host.get("boot_id") in boots
    if told_.get("controller_on_dut") is (not beside) and host.get("boot_id") and not resumed:
        yield (
            f"controller_on_dut is {not beside} in run.json, its boot is {host['boot_id']} in "
            f"hosts/controller.json, theirs {' and '.join(map(str, boots))}"
        )


def _exit(bundle: BundleView) -> Iterable[str]:
    """A failed or invalid cell makes a run that failed."""
    counts, ended = part_of(bundle.raw.run, "verdict_counts", {}), bundle.raw.run.get("exit_verdict")
    bad = [f"{counts[verdict]} {verdict}" for verdict in BAD if counts.get(verdict)]
    if bad and ended not in (None, "failed"):
        yield f"exit_verdict is {ended} in run.json, verdict_counts has {', '.join(bad)}"
