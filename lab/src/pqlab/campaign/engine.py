"""The campaign: from a plan to a sealed bundle, cell by cell, whatever happens on the way.

A run can be killed at any moment and resumed: finished cells are never touched again unless they failed.
Transport, clock, run id and all outputs are parameters; the control flow is tested without a lab.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pqlab import __version__
from pqlab.budget import estimate, handshake_costs_ms
from pqlab.campaign import hosts
from pqlab.campaign.agents import KEY_CODES, Agent, AgentFailure, Connect, Pair
from pqlab.campaign.cell import CellRunner, plan_row, write_unrun
from pqlab.campaign.clock import Clock, utc_basic, utc_text
from pqlab.campaign.finish import exit_code, reconcile_run, secret_files, verdict_counts
from pqlab.campaign.outputs import Outputs
from pqlab.campaign.store import Store, disk_errors, write_atomic, write_json
from pqlab.campaign.vehicle import wait_for_vehicle
from pqlab.errors import LabError
from pqlab.inventory import Inventory
from pqlab.paths import results_dir, shown
from pqlab.plan import Cell, cells_of, make_cells, plan_document
from pqlab.progress import Reporter
from pqlab.scenario.model import Scenario

Json = dict[str, Any]
MAX_ATTEMPTS = 3
#: verdicts a resumed run tries again; an invalid cell had its three attempts
OPEN_VERDICTS = ("fail", "not-run")
#: how long a lost agent may take to come back (its container restarts and tests itself)
RECOVERY_S = 90.0
_RECOVERY_PAUSES_S = (0.2, 0.5, 1.0, 2.0)
#: free space a run wants to keep beyond what its cells need
_DISK_RESERVE_BYTES = 8 << 20


@dataclass(frozen=True)
class Result:
    """What a finished run gives back: sealed bundle, cells by verdict, warnings, exit code of the process."""

    bundle: Path
    verdict_counts: dict[str, int]
    warnings: list[str]
    exit_code: int


@dataclass(frozen=True)
class Surroundings:
    """Everything a campaign touches that a test may replace."""

    inventory: Inventory
    results: Path
    connect: Connect
    clock: Clock
    outputs: Outputs
    reporter: Reporter
    token: Callable[[], str]
    command: list[str]
    strict: bool = False
    recovery_s: float = RECOVERY_S


class Campaign:
    """One run. Made by `begin` (new) or `resume` (from its work folder); `carry_out` does the work."""

    def __init__(
        self,
        around: Surroundings,
        scenario: Scenario,
        store: Store,
        cells: list[Cell],
        pair: Pair,
        hello: dict[str, Json],
    ) -> None:
        self._around = around
        self._scenario = scenario
        self._store = store
        self._cells = cells
        self._pair = pair
        self._hello = hello
        self._runner = CellRunner(pair, scenario, around.clock)
        self._current: Cell | None = None
        self._walls_s: list[float] = []
        self._verdicts: dict[str, str] = {}

    # ------------------------------------------------------------------ making one

    @classmethod
    def begin(cls, around: Surroundings, scenario: Scenario) -> Campaign:
        """A new run: greet both ends, plan, check the budget, write the run's documents. Raises LabError."""
        pair = Pair(around.inventory, around.connect)
        hello = greet(pair)
        hosts.check_pair(hello, scenario)
        providers = hosts.providers_document(hello, hosts.image_digests(around.inventory.compose_project))
        cells = make_cells(scenario, providers)
        latest = around.results / "latest"
        source = latest.resolve() if latest.is_dir() else None
        costs = handshake_costs_ms(source)
        budget = estimate(scenario, cells, costs, source.name if source else None)
        _check_disk(around.results, budget["disk_bytes"])
        now_ns = around.clock.realtime_ns()
        store = Store(around.results, f"{utc_basic(now_ns)}-{around.token()}")
        store.lock()
        write_atomic(store.data / "scenario.effective.yml", scenario.effective_yaml())
        store.write("providers.json", providers)
        for role, facts in hello.items():
            store.write(f"hosts/{role}.json", hosts.host_document(facts))
        controller = hosts.controller_document()
        store.write("hosts/controller.json", controller)
        store.write(
            "run.json",
            {
                "run_id": store.run_id,
                "started_ns": now_ns,
                "ended_ns": None,
                "controller": {
                    "controller_on_dut": hosts.shares_machine(controller, hello),
                    "host": controller["host"],
                },
                "pqlab_version": __version__,
                "scenario": scenario.name,
                "command": around.command,
                "loadavg_start": list(os.getloadavg()),
                "loadavg_end": None,
                "sessions": [],
                "exit_verdict": None,
                "influx": None,
            },
        )
        # the plan comes last: a work folder with a plan is one that can be resumed
        plan = plan_document(scenario, cells, budget, run_id=store.run_id, created_utc=utc_text(now_ns))
        store.write("plan.json", plan)
        return cls(around, scenario, store, cells, pair, hello)

    @classmethod
    def resume(cls, around: Surroundings, store: Store, scenario: Scenario) -> Campaign:
        """The rest of a run that was interrupted. Raises LabError when the builds changed meanwhile."""
        store.lock()
        pair = Pair(around.inventory, around.connect)
        hello = greet(pair)
        hosts.check_pair(hello, scenario)
        before = store.read("providers.json")
        _same_builds(before, hello, store.run_id)
        cells = cells_of(store.read("plan.json"))
        _check_disk(around.results, 0)
        return cls(around, scenario, store, cells, pair, hello)

    # ------------------------------------------------------------------ carrying out

    def carry_out(self) -> Result:
        """All cells that are missing or failed, then the bundle. Raises LabError; the work is kept."""
        around, store = self._around, self._store
        started_ns = around.clock.realtime_ns()
        run = store.read("run.json")
        session = {"started_ns": started_ns, "ended_ns": None, "command": around.command}
        run["sessions"].append(session)
        store.write("run.json", run)
        for cell in self._cells:
            if (record := store.record_of(str(cell.cell_id))) is not None:
                self._verdicts[str(cell.cell_id)] = str(record["verdict"])
        todo = [c for c in self._cells if self._verdicts.get(str(c.cell_id), "not-run") in OPEN_VERDICTS]
        around.reporter.begin(len(self._cells), len(self._cells) - len(todo))
        try:
            self._settle(first=True)
            wait_for_vehicle(self._pair.drone, self._scenario, around.clock, around.reporter.note)
            context = around.outputs.load_context(store.data)
            for cell in todo:
                self._cell(cell, context, todo)
            return self._finish(run, session)
        except KeyboardInterrupt:
            self._release()
            self._note_end("interrupted")
            raise LabError(
                "interrupted",
                f"run {store.run_id} was stopped",
                f"{len(self._verdicts)} of {len(self._cells)} cells are finished and kept",
                self._resume_command(),
            ) from None
        except LabError as error:
            self._release()
            self._note_end("stopped", error)
            if "pqlab resume" not in error.hint:
                error.hint = f"{error.hint}, then: {self._resume_command()}".lstrip(", ")
            raise
        finally:
            around.reporter.end()
            self._pair.close()
            store.unlock()

    def _cell(self, cell: Cell, context: Any, todo: list[Cell]) -> None:
        around, store = self._around, self._store
        cell_id = str(cell.cell_id)
        self._current = cell
        begun_s = around.clock.monotonic_s()
        reason = hosts.unsupported_reason(self._hello, cell.suite_id)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            around.reporter.cell_begins(cell.position, cell.suite_id, cell.repetition, attempt)
            self._write_status("running")
            folder = store.new_attempt(cell_id)
            failure: AgentFailure | None = None
            if reason is not None:
                write_unrun(folder, cell, "unsupported", reason, around.clock)
            else:
                failure = self._runner.run(cell, folder)
            record = around.outputs.build_record(folder, plan_row(cell), context)
            write_json(folder / "record.json", record)
            if failure is not None:
                self._settle()
            if record["verdict"] != "invalid":
                break
        store.finish_cell(cell_id)
        self._verdicts[cell_id] = str(record["verdict"])
        self._current = None
        self._walls_s.append(around.clock.monotonic_s() - begun_s)
        left = len(todo) - len(self._walls_s)
        eta_s = left * sum(self._walls_s) / len(self._walls_s)
        around.reporter.cell_ends(cell.position, record, eta_s)
        self._write_status("running", eta_s)

    def _resume_command(self) -> str:
        elsewhere = self._store.results != results_dir(None)
        option = f" --out {shown(self._store.results)}" if elsewhere else ""
        return f"./pqlab resume {self._store.run_id}{option}"

    # ------------------------------------------------------------------ agents lost and found

    def _settle(self, *, first: bool = False) -> None:
        """Until both ends answer, are idle and are the builds the run began with. Raises LabError."""
        clock = self._around.clock
        deadline_s = clock.monotonic_s() + self._around.recovery_s
        told = False
        for turn in range(10**6):
            try:
                if all(self._make_idle(agent, first=first) for agent in self._pair.agents.values()):
                    break
                if clock.monotonic_s() > deadline_s:
                    raise LabError(
                        "lab-busy",
                        "the agents carry out another controller's cell",
                        "a controller elsewhere drives this lab",
                        "wait for its run, or stop it there",
                    )
                clock.sleep(_RECOVERY_PAUSES_S[-1])
            except AgentFailure as error:
                if error.code in KEY_CODES or clock.monotonic_s() > deadline_s:
                    raise error.as_lab_error() from error
                if not told and not first:
                    self._around.reporter.note(f"{error.what}; waiting for it")
                told = True
                for agent in self._pair.agents.values():
                    agent.abandon()
                clock.sleep(_RECOVERY_PAUSES_S[min(turn, len(_RECOVERY_PAUSES_S) - 1)])
        if not first:
            hello = greet(self._pair)
            _same_builds(self._store.read("providers.json"), hello, self._store.run_id)

    def _make_idle(self, agent: Agent, *, first: bool) -> bool:
        """Is the agent idle now? A cell that a dead controller left behind is stopped.

        In the lab ring every controller is on this machine, so the lock proves that one dead. A controller of
        real hardware may sit elsewhere: its cell is left alone until it ends or the agent's watchdog ends it.
        """
        state = agent.call("counters")
        if state["state"] == "idle":
            return True
        if first and self._scenario.ring != "lab":
            return False
        agent.call("stop", {"cell_id": state["cell_id"]})
        return True

    def _release(self) -> None:
        """Both ends back to idle before this process goes; one that cannot be reached has its watchdog."""
        if self._current is None:
            return
        for agent in self._pair.agents.values():
            agent.abandon()
            try:
                agent.call("stop", {"cell_id": str(self._current.cell_id)}, timeout_s=5.0)
            except AgentFailure as error:
                if error.lost:
                    self._around.reporter.note(f"{error.what}; it returns to idle by itself within 60 s")
                # a refusal means there is nothing left to stop

    # ------------------------------------------------------------------ the end

    def _finish(self, run: Json, session: Json) -> Result:
        around, store = self._around, self._store
        self._write_status("finishing")
        counts = verdict_counts(self._verdicts.values())
        influx, warnings = reconcile_run(store, self._cells, around.outputs, around.reporter)
        code = exit_code(counts, warnings, strict=around.strict)
        ended_ns = around.clock.realtime_ns()
        session["ended_ns"] = ended_ns
        run.update(
            ended_ns=ended_ns,
            loadavg_end=list(os.getloadavg()),
            influx=influx,
            warnings=warnings,
            verdict_counts=counts,
            exit_verdict={0: "pass", 1: "failed", 3: "warnings"}[code],
        )
        store.write("run.json", run)
        with disk_errors(store.data / "analysis"):
            around.outputs.analyse(store.root)
            around.outputs.render(store.root)
        status = store.read_status()
        store.clear_scaffolding()
        try:
            bundle = around.outputs.seal(store.root, store.results, secret_files(around.inventory.keys))
        except BaseException:
            store.write_status({**status, "state": "stopped"})
            raise
        return Result(bundle, counts, warnings, code)

    # ------------------------------------------------------------------ status.json

    def _write_status(self, state: str, eta_s: float | None = None, error: LabError | None = None) -> None:
        current = self._current
        self._store.write_status(
            {
                "run_id": self._store.run_id,
                "state": state,
                "pid": os.getpid(),
                "scenario": self._scenario.name,
                "updated_utc": utc_text(self._around.clock.realtime_ns()),
                "done": len(self._verdicts),
                "total": len(self._cells),
                "verdict_counts": verdict_counts(self._verdicts.values()),
                "current": None if current is None else plan_row(current),
                "eta_s": eta_s,
                "error": None if error is None else error.as_dict(),
            }
        )

    def _note_end(self, state: str, error: LabError | None = None) -> None:
        """The last word in status.json; on a full disk there is no room even for that, and the lock tells."""
        try:
            self._write_status(state, error=error)
        except (LabError, OSError):
            self._around.reporter.note(f"status of {self._store.run_id} could not be written")


def greet(pair: Pair) -> dict[str, Json]:
    """hello of both ends. Raises LabError naming the end that does not answer."""
    try:
        return pair.both("hello")
    except AgentFailure as error:
        raise error.as_lab_error() from error


def _same_builds(before: Json, hello: dict[str, Json], run_id: str) -> None:
    for role, facts in hello.items():
        changed = hosts.different_builds(before[role], facts["providers"], binaries=True)
        if changed:
            raise LabError(
                "builds-changed",
                f"the {role} is another build than when run {run_id} began: " + ", ".join(changed),
                "cells of different builds do not belong in one run",
                "bring the former images back, or begin anew: ./pqlab run",
            )


def _check_disk(results: Path, need_bytes: int) -> None:
    existing = next(folder for folder in (results, *results.parents) if folder.exists())
    free_bytes = shutil.disk_usage(existing).free
    if free_bytes < need_bytes + _DISK_RESERVE_BYTES:
        raise LabError(
            "disk-full",
            f"not enough space in {shown(existing)}",
            f"{free_bytes / 1e6:.1f} MB are free, the run needs about "
            f"{(need_bytes + _DISK_RESERVE_BYTES) / 1e6:.1f} MB",
            "free some space, shorten the run (--session-s, --suites), or give another folder with --out",
        )
