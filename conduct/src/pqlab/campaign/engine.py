"""The campaign: from a plan to a sealed bundle, cell by cell, whatever happens on the way.

A run can be killed at any moment and resumed: finished cells are never touched again unless asked for.
Transport, clock, run id and all outputs are parameters; the control flow is tested without a lab.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pqbase.documents import Json, part_of, rows_of
from pqbase.text import utc_text
from pqevidence import commitment
from pqevidence.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_WARNING, LabError
from pqevidence.paths import out_option
from pqevidence.plan import Cell, cells_of
from pqevidence.record.faults import power_cycled
from pqevidence.record.quiet import disturbed_alone
from pqevidence.record.untimed import untimed_reasons, untimed_sentence
from pqevidence.scenario.conditions import observers_vary
from pqevidence.scenario.model import Scenario
from pqlab.campaign import hosts, steady
from pqlab.campaign.agents import AgentFailure, Pair
from pqlab.campaign.attest import Attester, attests
from pqlab.campaign.begin import check_disk, latest_bundle, new_run
from pqlab.campaign.budget import cell_seconds, load_costs
from pqlab.campaign.cell import CellRunner
from pqlab.campaign.eta import Eta, Kind, kind_of
from pqlab.campaign.extension import taken_over
from pqlab.campaign.finish import exit_code, reconcile_run, seal_marked, secret_files, verdict_counts
from pqlab.campaign.observers import NO_OBSERVERS
from pqlab.campaign.rawcell import plan_row, write_unrun
from pqlab.campaign.residents import Residents
from pqlab.campaign.ring import SIM
from pqlab.campaign.settle import Settler, greet, same_builds, same_detectors, same_hosts
from pqlab.campaign.silence import wait_for_quiet
from pqlab.campaign.store import Store, damage, disk_errors, write_json
from pqlab.campaign.surroundings import RECOVERY_S, Result, Surroundings
from pqlab.campaign.thermal import ThermalGate
from pqlab.campaign.vehicle import PUT_BACK_S, wait_for_vehicle

if TYPE_CHECKING:
    from pqevidence.record.raw import RawRun

__all__ = ["RECOVERY_S", "Campaign", "Result", "Surroundings", "greet"]

MAX_ATTEMPTS = 3
#: verdicts that `--rerun-failed` tries again
FAILED_VERDICTS = ("fail", "invalid")


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
        residents: Residents,
    ) -> None:
        self._around = around
        self._scenario = scenario
        self._store = store
        self._cells = cells
        self._pair = pair
        self._hello = hello
        gate = ThermalGate(part_of(scenario.data, "thermal_gate"), pair, around.clock, around.reporter.note)
        fast = hosts.fast_power(hello)
        observers = around.observers if observers_vary(scenario.data) else NO_OBSERVERS
        self._runner = CellRunner(
            pair,
            scenario,
            around.clock,
            around.timeline,
            gate,
            fast,
            residents,
            observers,
            neighbours=around.neighbours,
            supervisor=around.supervisor,
            fleet=around.fleet,
            canary_by_agent=bool(around.inventory.detectors),
            tell=store.tell_event,
        )
        self._residents = residents
        self._settler = Settler(around, pair, store, scenario.ring)
        self._attester = Attester(pair, store, active=attests(hello))
        self._eta = Eta([], {})
        # a simulation's clock is its model's: it says nothing of when this process will be done
        self._foretells = scenario.ring != SIM
        self._current: Cell | None = None
        self._bad_count = 0
        #: the run goes on, as it was told, on a machine that was not quiet: trying again would change nothing
        self._busy = False
        self._verdicts: dict[str, str] = {}
        #: the vehicle is one that has to be in the air before a cell can begin
        self._flies = False

    # ------------------------------------------------------------------ making one

    @classmethod
    def begin(cls, around: Surroundings, scenario: Scenario) -> Campaign:
        """A new run: greet both ends, plan, check the budget, write the run's documents. Raises LabError."""
        pair = Pair(around.inventory, around.connect)
        hello = greet(pair)
        hosts.check_pair(hello, scenario)
        hosts.check_power(around.place, scenario)
        residents = Residents(scenario.conditions, around.residents)
        store, cells = new_run(around, scenario, hello, residents.facts())
        return cls(around, scenario, store, cells, pair, hello, residents)

    @classmethod
    def resume(cls, around: Surroundings, store: Store, scenario: Scenario) -> Campaign:
        """The rest of a run that was interrupted. Raises LabError when builds, hosts or detectors
        changed meanwhile."""
        store.lock()
        pair = Pair(around.inventory, around.connect)
        hello = greet(pair)
        hosts.check_pair(hello, scenario)
        hosts.check_power(around.place, scenario)
        before = store.read("providers.json")
        same_builds(before, hello, store.run_id)
        same_hosts(store, hello, around.controller())
        residents = Residents(scenario.conditions, around.residents)
        same_detectors(before, residents.facts(), store.run_id)
        for cell_id in taken_over(store.read("run.json")):
            _require_undamaged(store, cell_id)
        cells = cells_of(store.read("plan.json"))
        check_disk(around.results, 0)
        return cls(around, scenario, store, cells, pair, hello, residents)

    # ------------------------------------------------------------------ carrying out

    def carry_out(self) -> Result:
        """The cells that are missing (or asked for again), then the bundle. Raises LabError; work is kept."""
        around, store = self._around, self._store
        run = store.read("run.json")
        session: Json = {
            "started_ns": around.clock.realtime_ns(),
            "ended_ns": None,
            "command": around.command,
            "rerun_failed": around.rerun_failed,
        }
        rows_of(run, "sessions").append(session)
        store.write("run.json", run)
        lost: list[str] = []
        for cell in self._cells:
            for told in store.recover(str(cell.cell_id)):
                around.reporter.note(told)
                lost.append(str(cell.cell_id))
            if (record := self._finished_record(str(cell.cell_id))) is not None:
                self._verdicts[str(cell.cell_id)] = str(record["verdict"])
        todo = self._todo(run)
        self._eta = Eta(todo, self._predicted_s(todo))
        if told_first := untimed_sentence(untimed_reasons(self._hello)):
            around.reporter.note(told_first)
        around.reporter.begin(len(self._cells), len(self._cells) - len(todo), self._left_s())
        try:
            self._settler.settle(first=True)
            self._attest_first(run, lost)
            self._flies = wait_for_vehicle(
                self._pair.drone, self._scenario, around.clock, around.reporter.note
            )
            if todo:
                settle = session["settle"] = wait_for_quiet(around, self._pair, self._hello)
                self._busy = settle.get("quiet") is False
                session["warm_up"] = self._warm_up(todo[0])
                store.write("run.json", run)
            context = around.outputs.load_context(store.data)
            self._residents.start()
            for cell in todo:
                around.place.require_held()
                self._cell(cell, context)
            self._require_whole()
            return self._finish(run, session)
        except KeyboardInterrupt:
            self._release()
            self._note_end("interrupted")
            raise LabError(
                "interrupted",
                f"run {store.run_id} was stopped",
                f"{len(self._verdicts)} of {len(self._cells)} cells are finished and kept",
                self._resume_command(),
                EXIT_INTERRUPTED,
            ) from None
        except LabError as error:
            self._release()
            self._note_end("stopped", error)
            if "pqlab resume" not in error.hint:
                error.hint = f"{error.hint}, then: {self._resume_command()}".lstrip(", ")
            raise
        finally:
            around.reporter.end()
            self._residents.stop()
            self._pair.close()
            store.unlock()

    def _attest_first(self, run: Json, lost: list[str]) -> None:
        """Before the first cell of this process: chains at both ends that begin with the plan, and, of a run
        that goes on, the attempts that a controller left when it died. Raises LabError."""
        attester = self._attester
        self._attested(attester.begin, list(dict.fromkeys(lost)))
        if (seal := self._around.seal) is not None:
            commitment.write(seal, self._store.read("plan.json"), attester.keys)
        if not attester.active:
            return
        # the names that `verify` gives them; whole digests and keys are what `--seal` writes
        keys = ", ".join(
            f"{role} {hashlib.sha256(bytes.fromhex(key)).hexdigest()[:16]}"
            for role, key in attester.keys.items()
        )
        self._around.reporter.note(f"attested: plan {attester.plan_sha256[:12]}; keys: {keys}")
        theirs = taken_over(run)
        for cell_id in (str(cell.cell_id) for cell in self._cells):
            if cell_id not in theirs:
                for home in self._store.homes(cell_id):
                    self._attested(attester.tell, cell_id, home)

    def _attested(self, job: Callable[..., None], *given: object) -> None:
        """Do it, once more where an agent is lost on the way. Raises LabError."""
        for again in (True, False):
            try:
                job(*given)
            except AgentFailure as error:
                if not (again and error.lost):
                    raise error.as_lab_error() from error
                self._settler.settle()
            else:
                return

    def _warm_up(self, cell: Cell) -> Json:
        """Handshakes that nobody records: the first of a process pay for caches and page faults. What keeps
        them from being made shows in the first cell, with its reason."""
        if self._around.settle_s is None:
            return {"handshake_count": 0, "reason": "this run keeps a clock of its own"}
        try:
            return {"handshake_count": self._runner.warm_up(cell), "reason": None}
        except AgentFailure as error:
            self._around.reporter.note(f"the warm-up was given up: {error}")
            self._settler.settle()
            return {"handshake_count": 0, "reason": str(error)}

    def _finished_record(self, cell_id: str) -> Json | None:
        """The cell's record. Where a dead controller left more complete attempts than the cell has, they are
        what counts: the last one becomes the cell, or, invalid or not complete itself, is to be followed by
        another (None)."""
        store = self._store
        made, finished = store.attempts_made(cell_id), store.attempts_finished(cell_id)
        if made == finished:
            return store.record_of(cell_id)
        left = store.left_complete(cell_id)
        if left is None or (left["verdict"] == "invalid" and made < finished + MAX_ATTEMPTS):
            return None
        store.finish_cell(cell_id)
        return left

    def _todo(self, run: Json) -> list[Cell]:
        """Cells without a record; with rerun_failed also this run's own failed and invalid ones."""
        again = ("not-run", *FAILED_VERDICTS) if self._around.rerun_failed else ("not-run",)
        theirs = taken_over(run)
        return [
            cell
            for cell in self._cells
            if self._verdicts.get(str(cell.cell_id), "not-run") in again
            and not (self._around.only and not str(cell.cell_id).startswith(self._around.only))
            and cell.cell_id not in theirs
        ]

    def _predicted_s(self, todo: Sequence[Cell]) -> dict[Kind, float | None]:
        costs = load_costs(latest_bundle(self._around.results))
        return {kind: cell_seconds(self._scenario, costs, *kind) for kind in map(kind_of, todo)}

    def _cell(self, cell: Cell, context: RawRun) -> None:
        around, store = self._around, self._store
        cell_id = str(cell.cell_id)
        self._current = cell
        begun_s = around.clock.monotonic_s()
        made = store.attempts_made(cell_id)
        # what a dead controller tried counts; who asks for failed cells again asks for as many more
        before = made if cell_id in self._verdicts else store.attempts_finished(cell_id)
        most = max(made + 1, before + MAX_ATTEMPTS)
        reason = hosts.unsupported_reason(self._hello, cell.suite_id)
        why: str | None = None
        for attempt in range(made + 1, most + 1):
            around.reporter.cell_begins(cell, attempt, why)
            self._write_status("running")
            folder = store.new_attempt(cell_id)
            store.begin_events()
            failure: AgentFailure | None = None
            if reason is not None:
                write_unrun(folder, cell, "unsupported", reason, around.clock)
            else:
                self._make_whole()
                self._residents.enter(self._scenario.condition(cell.condition))
                failure = self._runner.run(cell, folder)
            record = around.outputs.build_record(folder, plan_row(cell), context)
            write_json(folder / "record.json", record)
            if failure is not None:
                self._settler.settle()
            self._attested(self._attester.tell, cell_id, folder)
            if record["verdict"] != "invalid" or power_cycled(record):
                break
            if self._busy and disturbed_alone(record):
                break
            why = None if record.get("reason") is None else str(record["reason"])
        store.finish_cell(cell_id)
        self._verdicts[cell_id] = str(record["verdict"])
        self._current = None
        self._eta.finished(cell, around.clock.monotonic_s() - begun_s)
        around.reporter.cell_ends(cell.position, record, self._left_s())
        self._write_status("running")
        self._count_bad(str(record["verdict"]))

    def _make_whole(self) -> None:
        """Every container runs and the vehicle hovers, before a cell begins: what died in the last one, or
        between two, costs that one alone. Raises LabError where it cannot be mended."""
        around = self._around
        mended = around.supervisor.mend()
        for line in mended:
            around.reporter.note(line)
        if mended:
            self._settler.settle()
        if self._flies or mended:
            wait_for_vehicle(
                self._pair.drone,
                self._scenario,
                around.clock,
                around.reporter.note,
                grace_s=PUT_BACK_S if mended else 0.0,
                again=True,
            )

    def _count_bad(self, verdict: str) -> None:
        self._bad_count += verdict in FAILED_VERDICTS
        limit = self._around.max_fail
        if limit is not None and self._bad_count >= limit and len(self._verdicts) < len(self._cells):
            raise LabError(
                "max-fail",
                f"{self._bad_count} cells failed or were invalid, and --max-fail is {limit}",
                f"{len(self._verdicts)} of {len(self._cells)} cells are finished and kept",
                "look at their reasons (./pqlab status), mend the cause",
                EXIT_FAILED,
            )

    def _require_whole(self) -> None:
        """Raises LabError while planned cells are missing: a bundle holds every one of them."""
        missing = [c for c in self._cells if self._verdicts.get(str(c.cell_id), "not-run") == "not-run"]
        if missing:
            raise LabError(
                "incomplete",
                f"{len(missing)} of {len(self._cells)} cells are still to be carried out",
                "--only left them out; a bundle is sealed when every planned cell has its verdict",
                self._resume_command(),
                EXIT_WARNING,
            )

    def _resume_command(self) -> str:
        return f"./pqlab resume {self._store.run_id}{out_option(self._store.results)}"

    def _release(self) -> None:
        if self._current is not None:
            self._settler.release(str(self._current.cell_id))

    # ------------------------------------------------------------------ the end

    def _finish(self, run: Json, session: Json) -> Result:
        around, store = self._around, self._store
        self._write_status("finishing")
        around.reporter.note("all cells are done; analysing, reporting, sealing")
        counts = verdict_counts(self._verdicts.values())
        theirs = taken_over(run)
        fresh = [cell for cell in self._cells if cell.cell_id not in theirs]
        influx, warnings = reconcile_run(store, fresh, around.outputs, around.reporter)
        warnings += steady.ended(store, around.steadiness())
        warnings += hosts.note_late_images(store, around.inventory.compose_project)
        code = exit_code(counts, warnings, strict=around.strict)
        ended_ns = around.clock.realtime_ns()
        session["ended_ns"] = ended_ns
        run.update(
            ended_ns=ended_ns,
            loadavg_end=around.load(),
            influx=influx,
            warnings=warnings,
            verdict_counts=counts,
            exit_verdict={0: "pass", 1: "failed", 3: "warnings"}[code],
        )
        store.write("run.json", run)
        self._attested(self._attester.end)
        with disk_errors(store.data / "analysis"):
            around.outputs.analyse(store.root)
            around.outputs.render(store.root)
        status = store.read_status()
        store.clear_scaffolding()
        try:
            bundle = seal_marked(store, around.outputs.seal, secret_files(around.inventory.keys))
        except BaseException:
            if store.data.is_dir():
                store.write_status({**status, "state": "stopped"})
            raise
        return Result(bundle, counts, warnings, code)

    # ------------------------------------------------------------------ status.json

    def _left_s(self) -> float | None:
        return self._eta.left_s() if self._foretells else None

    def _write_status(self, state: str, error: LabError | None = None) -> None:
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
                "eta_s": self._left_s() if state == "running" else None,
                "error": None if error is None else error.as_dict(),
            }
        )

    def _note_end(self, state: str, error: LabError | None = None) -> None:
        """The last word in status.json; on a full disk there is no room even for that, and the lock tells."""
        try:
            self._write_status(state, error=error)
        except (LabError, OSError):
            self._around.reporter.note(f"status of {self._store.run_id} could not be written")


def _require_undamaged(store: Store, cell_id: str) -> None:
    """Raises LabError for a cell of an earlier bundle that lost something: it is not measured again."""
    home = store.cell_dir(cell_id)
    if (why := damage(home)) is not None:
        raise LabError(
            "damaged",
            f"cell {cell_id} of run {store.run_id} is not as it was taken over: {why}",
            "an earlier run measured it, and this one cannot measure it again",
            "begin anew from the sealed bundle: ./pqlab run SCENARIO --into BUNDLE",
        )
