"""A busy machine's times are no result: the rule, the readings it rests on, the wait before a run."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_agent import FakeAgent, FakeLab

from pqevidence.errors import LabError
from pqevidence.kernel.result import Tally
from pqevidence.record.handshake import HandshakeTrace, traces
from pqevidence.record.neighbours import NOT_COUNTED, Use, foreign_use
from pqevidence.record.quiet import MEDIANS, OWN_WORK, busy_told, judge_handshakes, judge_traffic, mark
from pqevidence.record.raw import Span
from pqevidence.record.sheet import Sheet, catalogue
from pqevidence.record.verdict import BUSY, Evidence, decide
from pqevidence.report.sections import overview
from pqevidence.verify.checks_quiet import _possible
from pqlab.campaign.engine import Campaign
from pqlab.campaign.neighbours import ComposeNeighbours, allowed_cores, compose_neighbours

US, MS = 1_000, 1_000_000
QUIET_PROBE = {
    "pieces_count": 100,
    "piece_median_ns": 500_000,
    "waited_median_ns": 2_000,
    "waited_mean_ns": 4_000,
}
BUSY_PROBE = {**QUIET_PROBE, "waited_mean_ns": 900_000}


def shakes(
    count: int,
    *,
    wall_us: int = 700,
    work_us: tuple[int, int] = (330, 300),
    queue_us: tuple[int, int] = (60, 250),
    crypto: tuple[int, int] = (60, 60),
) -> dict[str, HandshakeTrace]:
    """Cold handshakes, as a quiet machine makes them: both ends take turns on one core, so that the ground
    waits while the drone works, and the wall is the work of both. crypto: (wall, processor) of a primitive
    each, µs."""
    rows = []
    for number in range(count):
        start = number * 10 * MS
        for host, work, queue in zip(("drone", "gcs"), work_us, queue_us, strict=True):
            known: dict[str, Any] = {
                "host": host,
                "handshake_id": f"h{number}",
                "mode": "cold",
                "suite_id": "s",
            }
            rows.append(
                Span(
                    **known,
                    step="handshake",
                    kind="wall",
                    start_ns=start,
                    end_ns=start + wall_us * US,
                    size_bytes=None,
                    cpu_ns=work * US,
                    runqueue_ns=queue * US,
                    involuntary=0,
                )
            )
            step = "encaps" if host == "drone" else "keygen"
            rows.append(
                Span(
                    **known,
                    step=step,
                    kind="crypto",
                    start_ns=start,
                    end_ns=start + crypto[0] * US,
                    size_bytes=None,
                    cpu_ns=crypto[1] * US,
                )
            )
    return traces(rows)


def use(drone_pct: float, gcs_pct: float | None = None, *, cores: int = 2, throttled_ms: float = 0.0) -> Use:
    ground = drone_pct if gcs_pct is None else gcs_pct
    return Use(
        drone_pct,
        0.0,
        5.0,
        {"drone": drone_pct, "gcs": ground},
        {"drone": cores, "gcs": cores},
        {"drone": throttled_ms, "gcs": 0.0},
    )


# ------------------------------------------------------------------ handshakes


def test_waiting_that_the_peers_work_explains_is_no_busy_machine() -> None:
    judged = judge_handshakes(shakes(30), use(3.0), one_machine=True)
    assert (judged.handshake, judged.ends, judged.tails, judged.findings) == (None, {}, {}, ())


def test_waiting_beyond_the_work_of_both_makes_walls_and_that_end_invalid() -> None:
    slow = shakes(30, wall_us=2_000, queue_us=(60, 1_500))
    judged = judge_handshakes(slow, use(8.0), one_machine=True)
    assert judged.handshake is not None and "68 % of it, 1.370 ms" in judged.handshake
    assert list(judged.ends) == ["gcs"] and "ground station" in judged.handshake
    assert set(judged.tails) == {"handshake_p95_ms", "handshake_max_ms"}


def test_who_is_alone_waits_for_himself() -> None:
    """Neighbours used 3 % of a core: they cannot have held up every handshake for a millisecond."""
    slow = shakes(30, wall_us=2_000, queue_us=(60, 1_500))
    judged = judge_handshakes(slow, use(3.0), one_machine=True)
    assert judged.findings == () and judged.tails, "a tail may be one of theirs"
    assert judge_handshakes(slow, None, one_machine=True).findings, "nobody counted them"


def test_a_slow_link_is_no_waiting() -> None:
    """80 ms each way: nearly all of the wall is unexplained by work, and no thread waited in it."""
    far = shakes(30, wall_us=160_000, queue_us=(4, 5))
    assert judge_handshakes(far, use(3.0), one_machine=True).findings == ()


def test_hosts_apart_explain_nothing_of_each_other() -> None:
    far = shakes(30, wall_us=3_000, queue_us=(400, 0))
    assert list(judge_handshakes(far, None, one_machine=False).ends) == ["drone"]


def test_one_handshake_held_up_spoils_the_tail_alone() -> None:
    mixed = shakes(29) | {"late": next(iter(shakes(1, wall_us=9_000, queue_us=(60, 8_000)).values()))}
    judged = judge_handshakes(mixed, use(3.0), one_machine=True)
    assert judged.findings == () and "handshake_max_ms" in judged.tails
    assert decide(Evidence(completed=30, traced=30, busy=judged.findings)).verdict == "pass"


def test_primitives_that_stand_still_are_seen_without_a_queue() -> None:
    """A limited container and a hypervisor: no queue, but a primitive of 60 µs takes 900."""
    held = shakes(30, wall_us=2_500, queue_us=(0, 0), crypto=(900, 60))
    judged = judge_handshakes(held, None, one_machine=True)
    assert judged.handshake is not None and set(judged.ends) == {"drone", "gcs"}


def test_hosts_that_cannot_tell_are_not_judged() -> None:
    silent = {
        key: HandshakeTrace(
            {
                host: Span(wall.host, wall.handshake_id, "cold", "s", "handshake", "wall", 0, 9 * MS, None)
                for host, wall in trace.walls.items()
            },
        )
        for key, trace in shakes(30).items()
    }
    assert judge_handshakes(silent, None, one_machine=True).findings == ()


def test_neighbours_disturb_even_where_nobody_waits() -> None:
    """Caches and sibling threads are shared: beside a compiler the same work took 1.4 times as long."""
    judged = judge_handshakes(shakes(30), use(180.0), one_machine=True)
    assert judged.findings and "180 %" in judged.findings[0] and set(judged.ends) == {"drone", "gcs"}
    pinned = judge_handshakes(shakes(30), use(97.0, 1.0, cores=1), one_machine=True)
    assert list(pinned.ends) == ["drone"]


def test_idle_cores_are_quiet_whatever_the_others_do() -> None:
    assert judge_handshakes(shakes(30), use(900.0, cores=16), one_machine=True).findings == ()
    assert judge_handshakes(shakes(30), use(1390.0, cores=16), one_machine=True).findings != ()


def test_a_hypervisor_that_takes_time_is_told() -> None:
    stolen = replace(use(1.0), steal_pct=9.0)
    judged = judge_handshakes(shakes(30), stolen, one_machine=True)
    assert judged.findings and "hypervisor took 9 %" in judged.findings[0]
    assert set(judge_traffic({"drone": 0.1, "gcs": 0.1}, stolen)) == {"drone", "gcs"}
    assert judge_handshakes(shakes(30), replace(use(1.0), steal_pct=4.0), one_machine=True).findings == ()


def test_a_limited_container_is_told() -> None:
    judged = judge_handshakes(shakes(30), use(1.0, throttled_ms=70.0), one_machine=True)
    assert judged.findings and "own limit" in judged.findings[0] and list(judged.ends) == ["drone"]


# ------------------------------------------------------------------ traffic


@pytest.mark.parametrize(
    ("waited_pct", "foreign", "ends"),
    [
        (1.1, use(3.0), []),  # as on a quiet machine
        (9.0, use(3.0), []),  # the lab waits for itself: that is what it measures
        (9.0, use(8.0), ["drone"]),
        (9.0, None, ["drone"]),  # nobody counted neighbours: the waiting decides
        (None, use(3.0), []),
        (0.5, use(60.0), ["drone", "gcs"]),
    ],
)
def test_traffic_is_judged_by_waiting_and_neighbours(
    waited_pct: float | None, foreign: Use | None, ends: list[str]
) -> None:
    assert sorted(judge_traffic({"drone": waited_pct, "gcs": 0.3}, foreign)) == ends


def test_disturbed_fields_are_invalid_and_keep_their_value() -> None:
    sheet = Sheet()
    for letter in "DEHNO":
        for name, spec in catalogue()[letter].fields.items():
            sheet.put(letter, name, 1.0 if spec.unit in ("ms", "%") else None)
    judged = judge_handshakes(shakes(30, wall_us=2_000, queue_us=(60, 1_500)), None, one_machine=True)
    mark(sheet, judged)
    rows = {(letter, name): row for letter in "DE" for name, row in sheet._rows[letter].items()}
    invalid = {key for key, row in rows.items() if row["validity"] == "invalid"}
    assert {("D", name) for name in MEDIANS} <= invalid | {("D", "handshake_over_crypto_ratio")}
    assert ("E", "kem_keygen_ms") in invalid and ("E", "kem_encaps_ms") not in invalid
    assert all(rows[key]["value"] == 1.0 and rows[key]["reason"] for key in invalid)


def test_every_name_of_the_rule_is_a_field() -> None:
    for names in OWN_WORK.values():
        assert all(name in catalogue()[letter].fields for letter, name in names)


def test_a_busy_cell_is_invalid_by_name() -> None:
    told = decide(Evidence(completed=30, traced=30, busy=("it waited",)))
    assert (told.verdict, told.reason) == ("invalid", f"{BUSY}: it waited")


# ------------------------------------------------------------------ readings


def reading(t_ms: int, edge: str, used: list[float], lab: list[float] | None, **more: Any) -> dict[str, Any]:
    row = {
        "event": "processors",
        "window": "traffic",
        "edge": edge,
        "mono_s": t_ms / 1e3,
        "used_ms": used,
        "lab_ms": lab,
        "lab_total_ms": sum(lab or [0.0]),
        "controller_ms": 0.0,
        "steal_ms": 0.0,
        "cores_of": {"drone": [0], "gcs": [1]},
        "throttled_ms": {"drone": 0.0, "gcs": None},
    }
    return row | more


def test_neighbours_are_what_is_left_by_core() -> None:
    events = [reading(0, "before", [10, 10], [5, 5]), reading(1000, "after", [910, 210], [105, 195])]
    found, why = foreign_use(events, "traffic")
    assert found is not None and why is None
    assert found.foreign_at_pct == pytest.approx({"drone": 80.0, "gcs": 1.0})
    assert found.foreign_pct == pytest.approx(81.0)
    assert found.crowded("drone") is not None and found.crowded("gcs") is None


def test_without_accounts_by_core_both_ends_share_the_neighbours() -> None:
    first = reading(0, "before", [0, 0], None, lab_total_ms=0.0)
    last = reading(1000, "after", [900, 210], None, lab_total_ms=300.0, controller_ms=10.0)
    found, _ = foreign_use([first, last], "traffic")
    assert found is not None and found.foreign_at_pct == pytest.approx({"drone": 80.0, "gcs": 80.0})


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([], NOT_COUNTED),
        ([reading(0, "before", [0], [0])], NOT_COUNTED),
        ([reading(0, "before", [0], [0]), reading(1000, "after", [0], [0], reason="no group")], "no group"),
        ([reading(5, "before", [0], [0]), reading(5, "after", [0], [0])], "did not move"),
        ([reading(0, "before", [0], [0]), reading(9, "after", [0, 1], [0])], "damaged"),
        ([reading(0, "before", [0], [0]), reading(9, "after", ["x"], [0])], "damaged"),
    ],
)
def test_what_cannot_be_known_is_told(events: list[dict[str, Any]], why: str) -> None:
    found, told = foreign_use(events, "traffic")
    assert found is None and told is not None and why in told


def test_a_reading_that_cannot_be_is_noticed() -> None:
    before, after = reading(0, "before", [10], [5]), reading(1000, "after", [500], [400])
    good = Tally()
    _possible(before, after, "cell", good)
    assert good.problems == []
    for change in ({"used_ms": [9000]}, {"used_ms": [1]}, {"lab_total_ms": -3.0}, {"steal_ms": 9e6}):
        tally = Tally()
        _possible(before, {**after, **change}, "cell", tally)
        assert tally.problems, change


def host(folder: Path) -> ComposeNeighbours:
    """A kernel's files of one container, pid 7, on two cores."""
    proc, root = folder / "proc", folder / "cgroup"
    (proc / "7").mkdir(parents=True)
    (proc / "7" / "cgroup").write_text("5:cpuacct:/lab\n4:cpu:/lab\n")
    (proc / "7" / "status").write_text("Name: x\nCpus_allowed_list:\t0,2-3\n")
    (proc / "stat").write_text("cpu  9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8\ncpu1 1 1 1 4 5 6 7 0\n")
    for place, text in (("cpuacct/lab", "50000000 60000000"), ("cpuacct", "500000000 600000000")):
        (root / place).mkdir(parents=True, exist_ok=True)
        (root / place / "cpuacct.usage_percpu").write_text(text + " \n")
        (root / place / "cpuacct.usage").write_text("110000000\n")
    (root / "cpu" / "lab").mkdir(parents=True)
    (root / "cpu" / "lab" / "cpu.stat").write_text("nr_periods 4\nnr_throttled 2\nthrottled_time 3000000\n")
    return ComposeNeighbours("pqlab", proc, root, lambda _project: [("drone", 7)])


def test_a_reading_holds_both_accounts(tmp_path: Path) -> None:
    told = host(tmp_path).reading()
    assert (told["used_ms"], told["lab_ms"], told["lab_total_ms"]) == ([500.0, 600.0], [50.0, 60.0], 110.0)
    assert told["steal_ms"] == 80
    assert (told["cores_of"], told["throttled_ms"]) == ({"drone": [0, 2, 3]}, {"drone": 3.0})
    assert allowed_cores(99, tmp_path / "proc") == []


def test_what_a_container_used_stays_when_it_ends(tmp_path: Path) -> None:
    """Its account goes with it; if the total shrank, `processors_framed` would refuse the bundle."""
    neighbours = host(tmp_path)
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    containers = [("drone", 7), ("influxdb", 8)]
    neighbours.ask = lambda _project: containers

    def account(pid: int, core_ms: int) -> None:
        (proc / str(pid)).mkdir(exist_ok=True)
        (proc / str(pid) / "cgroup").write_text(f"5:cpuacct:/of{pid}\n")
        (root / "cpuacct" / f"of{pid}").mkdir(exist_ok=True)
        usage = root / "cpuacct" / f"of{pid}"
        (usage / "cpuacct.usage_percpu").write_text(f"{core_ms * MS} 0\n")
        (usage / "cpuacct.usage").write_text(f"{core_ms * MS}\n")

    account(8, 9000)
    assert neighbours.reading()["lab_total_ms"] == 9110.0
    (proc / "8" / "cgroup").unlink()
    (proc / "8").rmdir()
    containers.pop()
    assert (neighbours.reading()["lab_total_ms"], neighbours.reading()["lab_ms"]) == (9110.0, [9050.0, 60.0])
    containers.append(("influxdb", 9))  # put back: another one, which begins at nothing
    account(9, 5)
    assert neighbours.reading()["lab_total_ms"] == 9115.0


def test_a_container_that_is_started_later_is_the_lab_s_too(tmp_path: Path) -> None:
    """The router, before the first cell over a link. As a neighbour it made cells of fast suites invalid."""
    neighbours = host(tmp_path)
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    containers, asked = [("drone", 7)], []
    neighbours.ask = lambda project: asked.append(project) or list(containers)
    assert neighbours.reading()["lab_total_ms"] == 110.0
    containers.append(("link", 8))
    (proc / "8").mkdir()
    (proc / "8" / "cgroup").write_text("5:cpuacct:/router\n")
    (root / "cpuacct" / "router").mkdir()
    (root / "cpuacct" / "router" / "cpuacct.usage_percpu").write_text(f"{300 * MS} 0\n")
    (root / "cpuacct" / "router" / "cpuacct.usage").write_text(f"{300 * MS}\n")
    assert neighbours.reading()["lab_total_ms"] == 410.0
    assert neighbours.reading()["lab_ms"] == [350.0, 60.0]
    assert len(asked) == 2, "the engine is asked again only when a group came or went"


def test_a_lab_that_is_not_there_is_told(tmp_path: Path) -> None:
    neighbours = host(tmp_path)
    neighbours.ask = lambda _project: []
    assert neighbours.reading() == {"reason": "no container of pqlab runs on this machine"}
    assert "no containers of this machine" in compose_neighbours(None).reading()["reason"]


# ------------------------------------------------------------------ before the first cell


def session_of(bundle: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((bundle / "data" / "run.json").read_text())
    session: dict[str, Any] = document["sessions"][0]
    return session


def probed(agent: FakeAgent, *answers: dict[str, Any]) -> None:
    """The agent answers probes with these in turn, the last one for ever."""
    left = [copy.deepcopy(answer) for answer in answers]

    def hello(probe: bool = False) -> dict[str, Any]:
        told = {**agent.facts, "state": agent.state, "cell_id": agent.cell_id}
        return {**told, "quiet": left.pop(0) if len(left) > 1 else left[0]} if probe else told

    agent.do_hello = hello  # type: ignore[method-assign]


def begun(lab: FakeLab, **more: Any) -> Campaign:
    return Campaign.begin(replace(lab.around(), **{"settle_s": 10.0, **more}), lab.scenario(1))


def test_a_quiet_machine_is_asked_three_times_and_warmed_up(lab: FakeLab) -> None:
    for agent in (lab.drone, lab.gcs):
        probed(agent, QUIET_PROBE)
    result = begun(lab).carry_out()
    session = session_of(result.bundle)
    assert session["settle"]["quiet"] is True and set(session["settle"]["probes"]) == {"drone", "gcs"}
    assert session["warm_up"] == {"handshake_count": 100, "reason": None}
    assert lab.drone.calls.count(("hello", {"probe": True})) == 3
    first = next(n for n, (m, p) in enumerate(lab.drone.calls) if m == "prepare")
    assert lab.drone.calls[first][1]["cell_id"] == "warm-up"
    assert busy_told({"sessions": [session]}) is None


def test_a_machine_that_stays_busy_ends_the_run_with_the_next_command(lab: FakeLab) -> None:
    probed(lab.drone, BUSY_PROBE)
    probed(lab.gcs, QUIET_PROBE)
    with pytest.raises(LabError) as caught:
        begun(lab).carry_out()
    assert (caught.value.code, caught.value.exit_code) == ("machine-busy", 4)
    assert "at the drone a thread waits" in caught.value.what and "ground" not in caught.value.what
    assert "--busy-ok" in caught.value.hint and "./pqlab resume" in caught.value.hint
    assert "prepare" not in lab.drone.methods()


def test_a_machine_that_becomes_quiet_is_waited_for(lab: FakeLab) -> None:
    probed(lab.drone, BUSY_PROBE, BUSY_PROBE, QUIET_PROBE, BUSY_PROBE, QUIET_PROBE)
    probed(lab.gcs, QUIET_PROBE)
    settle = session_of(begun(lab).carry_out().bundle)["settle"]
    assert settle["quiet"] is True and settle["waited_s"] > 0
    assert any("waiting for a quiet machine" in note for note in lab.reporter.lines)


def test_busy_ok_goes_on_and_says_so(lab: FakeLab) -> None:
    probed(lab.drone, BUSY_PROBE)
    probed(lab.gcs, BUSY_PROBE)
    session = session_of(begun(lab, busy_ok=True, settle_s=0.0).carry_out().bundle)
    assert (session["settle"]["quiet"], session["settle"]["busy_ok"]) == (False, True)
    told = busy_told({"sessions": [session]})
    assert told is not None and "0.90 ms" in told
    assert any(note.startswith("busy machine: ") for note in lab.reporter.lines)


def test_an_emulated_host_is_not_waited_for(lab: FakeLab) -> None:
    lab.drone.facts["host"]["emulated"] = "qemu-user"
    settle = session_of(begun(lab).carry_out().bundle)["settle"]
    assert settle["asked"] is False and "qemu-user" in settle["reason"]


@pytest.mark.parametrize(("answer", "attempts"), [(QUIET_PROBE, 3), (BUSY_PROBE, 1)])
def test_a_disturbed_cell_is_tried_again_but_where_the_machine_was_busy_all_along(
    lab: FakeLab, answer: dict[str, Any], attempts: int
) -> None:
    for agent in (lab.drone, lab.gcs):
        probed(agent, answer)
    build = lab.outputs.build_record

    def disturbed(folder: Path, row: dict[str, Any], context: Any) -> dict[str, Any]:
        findings = {"R": {"verdict_findings": {"value": {BUSY: "it waited"}}}}
        return {**build(folder, row, context), "verdict": "invalid", "categories": findings}

    lab.outputs = replace(lab.outputs, build_record=disturbed)
    begun(lab, busy_ok=True, settle_s=1.0).carry_out()
    assert sum(line.startswith("cell 0 attempt") for line in lab.reporter.lines) == attempts


def test_the_page_says_once_that_neighbours_disturbed_its_cells() -> None:
    """Each cell lost another share; that is one finding, and what has another cause is one of its own."""
    cells = [
        SimpleNamespace(
            cell_id=f"{number:016x}",
            suite_id="cs-s",
            verdict="invalid",
            record={
                "verdict": "invalid",
                "reason": f"{BUSY}: other programs used {share} %",
                "categories": {"R": {"verdict_findings": {"value": {name: "it"}}}},
            },
        )
        for number, (share, name) in enumerate([(180, BUSY), (185, BUSY), (190, "samples_drone")])
    ]
    source = SimpleNamespace(
        bundle=SimpleNamespace(cells=cells), ring="lab", cells={c.cell_id: c for c in cells}
    )
    told = [finding.statement for finding in overview._verdict_findings(source)]  # type: ignore[arg-type]
    assert told == [
        "2 of 3 cells: invalid. The machine was busy with other programs; each cell says how busy.",
        f"1 of 3 cells: invalid. {BUSY}: other programs used 190 %",
    ]
