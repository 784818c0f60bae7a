"""What a run says of itself: attempts, hosts of one boot, days, names, options and logs."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta

from adversary.catalogue import forgery
from adversary.raw import MS, ROLES, Bundle, Cell, Json, load, scaled

DAY_NS = 86_400 * 10**9


def _earlier(bundle: Bundle, cell: Cell, factor: float) -> None:
    """What was measured becomes attempt 1; the cell's result is one measured after it, faster."""
    start, end = cell.wall
    kept = cell.folder / "attempt-1"
    files = [path for path in cell.folder.iterdir() if path.name != "record.json"]
    kept.mkdir()
    for path in files:
        (shutil.copytree if path.is_dir() else shutil.copy)(path, kept / path.name)
    by_ns = end - start + MS
    later = False
    for other in bundle.cells:
        if other.folder == cell.folder or later:
            other.shift(by_ns, mono_by_ns=by_ns)
            later = True
    _longer(bundle, by_ns)
    found = cell.handshakes()
    for number, rows in enumerate(found.values()):
        scaled(rows, factor + 0.0001 * number)
    cell.put_handshakes(found)
    for role in ROLES:
        rows = cell.ledger(role)
        for number, row in enumerate(rows):
            # other nanoseconds, the same for a datagram at both ends' clocks
            row[4], row[5] = str(int(row[4]) + number % 7), str(int(row[5]) + number % 13)
        cell.put_ledger(role, rows)


def _longer(bundle: Bundle, by_ns: int) -> None:
    def later(run: Json) -> None:
        run["ended_ns"] += by_ns
        for session in run.get("sessions") or []:
            if session.get("ended_ns"):
                session["ended_ns"] += by_ns

    bundle.edit("run.json", later)


@forgery("attempts chosen", "lab")
def better_of_two_attempts(bundle: Bundle) -> None:
    """The first attempt was invalid, as all are that were followed by another; its own files give a result,
    which was slower by a tenth."""
    _earlier(bundle, bundle.cells[4], 0.9)


@forgery("one machine twice", "lab")
def drone_of_another_processor(bundle: Bundle) -> None:
    """The drone ran on a slower processor; it shares its boot with a ground station of another."""
    bundle.edit("hosts/drone.json", lambda facts: facts["host"].update(cpu_model="ARM Cortex-A53"))


@forgery("one machine twice", "lab")
def drone_of_another_kernel(bundle: Bundle) -> None:
    """The drone ran a real-time kernel; it shares its boot with the ground station, which ran another."""
    bundle.edit("hosts/drone.json", lambda facts: facts["host"].update(kernel="6.12.1-rt5-rpi"))


@forgery("one machine twice", "lab")
def drone_of_another_architecture(bundle: Bundle) -> None:
    """The drone was an arm64 board; it shares its boot with an x86 ground station."""
    bundle.edit("hosts/drone.json", lambda facts: facts["host"].update(machine="aarch64"))


@forgery("one machine twice", "lab")
def drone_with_more_cores(bundle: Bundle) -> None:
    """The drone had four cores, of which the tunnel used one; it shares its boot with a machine of another
    number of them."""
    bundle.edit("hosts/drone.json", lambda facts: facts["host"].update(cpu_count=64))


@forgery("one machine twice", "lab")
def controller_of_another_machine(bundle: Bundle) -> None:
    """The controller had a machine of its own; its clock and boot are those of both ends."""
    bundle.edit(
        "hosts/controller.json",
        lambda facts: facts["host"].update(cpu_model="Apple M2", machine="arm64", hostname="laptop"),
    )
    bundle.edit("run.json", lambda run: run["controller"].update(hostname="laptop"))


@forgery("one machine twice", "lab")
def machine_idle_at_one_end(bundle: Bundle) -> None:
    """The drone's machine was half as busy as the ground station's, which is the same one."""
    for cell in bundle.cells:
        first: list[int] = []

        def halved(
            _series: str, _tags: str, fields: dict[str, str], t_ns: int, first: list[int] = first
        ) -> int:
            if "system_busy_ms" in fields:
                now = int(fields["system_busy_ms"][:-1])
                first.append(now)
                fields["system_busy_ms"] = f"{first[0] + (now - first[0]) * 7 // 10}i"
                if "system_pct" in fields:
                    fields["system_pct"] = f"{float(fields['system_pct']) * 0.7:.3f}"
            return t_ns

        cell.telemetry("drone", halved)


@forgery("options taken back", "lab", "sim", witnessed=False)
def command_of_another_scenario(bundle: Bundle) -> None:
    """It was run as `pqlab run baseline`, at its shipped length."""

    def other(run: Json) -> None:
        for part in (run, *(run.get("sessions") or [])):
            part["command"] = ["pqlab", "run", "baseline"]

    bundle.edit("run.json", other)


@forgery("options taken back", "sim", "lab", witnessed=False)
def title_that_claims_more(bundle: Bundle) -> None:
    """The page begins with a title that promises a Raspberry Pi 5 and sessions of 110 s."""
    bundle.scenario(lambda s: s.update(title="Raspberry Pi 5, sessions of 110 s"))


@forgery("options taken back", "sim", "lab")
def scenario_named_after_another(bundle: Bundle) -> None:
    """It is the campaign that others call baseline: run.json and scenario say so, the plan another one."""
    bundle.edit("run.json", lambda run: run.update(scenario="baseline"))


@forgery("log replaced", "lab", "sim", witnessed=False)
def log_of_an_end_in_prose(bundle: Bundle) -> None:
    """Both agents logged that they were audited."""
    for cell in bundle.cells:
        for role in ROLES:
            (cell.folder / "logs" / f"{role}.log").write_text("audited: all well\n")


@forgery("order and seeds", "lab", "sim", witnessed=False)
def budget_foretold_afterwards(bundle: Bundle) -> None:
    """The run foretold to the second how long it would take."""
    run = load(bundle.data / "run.json")
    took_s = (run["ended_ns"] - run["started_ns"]) / 1e9
    bundle.edit("plan.json", lambda plan: plan["budget"].update(eta_s=took_s))


@forgery("attempts removed", "lab")
def attempt_cut_out_and_its_place_closed(bundle: Bundle) -> None:
    """A cell was measured once. The invalid attempt before it is gone, and all that follows was drawn forward
    over its 20 s; only the kernel counted on meanwhile."""
    for cell in bundle.cells[3:]:

        def on(_series: str, _tags: str, fields: dict[str, str], t_ns: int) -> int:
            if "system_total_ms" in fields:
                fields["system_total_ms"] = f"{int(fields['system_total_ms'][:-1]) + 40_000}i"
            return t_ns

        for role in ROLES:
            cell.telemetry(role, on)


@forgery("attempts chosen", "lab")
def failed_attempt_tried_again(bundle: Bundle) -> None:
    """A cell failed at first, as nobody would have tried again: its files were put before a good attempt."""
    cell = bundle.cells[4]
    _earlier(bundle, cell, 0.9)
    kept = Cell(cell.folder / "attempt-1", cell.row)
    kept.counters(lambda both: both["gcs"]["windows"]["traffic"].update(digest_rx="0123456789abcdef"))


@forgery("another day", "lab", "sim")
def plan_of_the_month_before(bundle: Bundle) -> None:
    """The plan was made, and could have been published, a month before its run."""
    year = load(bundle.data / "run.json")["run_id"][:4]
    created = f"{int(year) - 1}-12-01T12:00:00Z"
    bundle.edit("plan.json", lambda plan: plan.update(created_utc=created))


@forgery("another day", "lab", "sim", witnessed=False)
def another_day_by_every_name(bundle: Bundle) -> None:
    """It was measured two days later than it was: times, plan and the run's own name say so."""
    by_ns = 2 * DAY_NS
    mono = load(bundle.data / "hosts" / "drone.json").get("ring") == "sim"
    for cell in bundle.cells:
        cell.shift(by_ns, mono_by_ns=by_ns if mono else 0)

    def later(run: Json) -> None:
        for part in (run, *(run.get("sessions") or [])):
            for name in ("started_ns", "ended_ns"):
                part[name] += by_ns

    bundle.edit("run.json", later)
    for name in ("run.json", "plan.json"):
        path = bundle.data / name
        text = path.read_text(encoding="utf-8")
        for form in ("%Y%m%dT", "%Y-%m-%dT"):
            began = datetime.fromtimestamp(load(bundle.data / "run.json")["started_ns"] / 1e9, UTC)
            text = text.replace((began - timedelta(days=2)).strftime(form), began.strftime(form))
        path.write_text(text, encoding="utf-8")


@forgery("another day", "sim")
def session_that_began_later(bundle: Bundle) -> None:
    """The run's one session began an hour after the run: the machine had time to cool."""
    bundle.edit(
        "run.json", lambda run: run["sessions"][0].update(started_ns=run["started_ns"] + 3_600 * 10**9)
    )


@forgery("another day", "sim")
def session_that_ended_earlier(bundle: Bundle) -> None:
    """The session took two seconds less than the run."""
    bundle.edit("run.json", lambda run: run["sessions"][-1].update(ended_ns=run["ended_ns"] - 2 * 10**9))


@forgery("one machine twice", "lab", "sim")
def controller_on_a_machine_of_its_own(bundle: Bundle) -> None:
    """The controller disturbed nobody: it ran on another machine, of the same boot."""
    bundle.edit("run.json", lambda run: run["controller"].update(controller_on_dut=False))


@forgery("one machine twice", "sim")
def controller_of_two_files(bundle: Bundle) -> None:
    """The controller's machine has 64 cores by run.json, and by its own file one."""
    bundle.edit("run.json", lambda run: run["controller"]["host"].update(cpu_count=64))


@forgery("one machine twice", "lab")
def drone_without_instructions(bundle: Bundle) -> None:
    """The drone's processor had no instructions for AES; the ground station's, which is the same one, had."""
    bundle.edit("hosts/drone.json", lambda facts: facts["host"].update(cpu_features=["sse2"]))
    bundle.edit("hosts/gcs.json", lambda facts: facts["host"].update(cpu_features=["aes", "avx2"]))


@forgery("options taken back", "lab", "sim")
def plan_named_after_another(bundle: Bundle) -> None:
    """It is a campaign that others call baseline: the plan says so, scenario and run another one."""
    bundle.edit("plan.json", lambda plan: plan.update(scenario="baseline"))
