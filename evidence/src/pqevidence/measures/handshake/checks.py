"""Handshakes: spans that add up, lie where they should, and belong to the suite that was claimed."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from pqbase.documents import Json, number_of, part_of, whole_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView, CellView, Ends, end_of
from pqevidence.kernel.witnesses import has_witnesses
from pqevidence.record.context import primitive_sizes, suite_of
from pqevidence.record.handshake import COLD, POOLED, PRIMITIVE_HOST, SIZED_STEPS
from pqevidence.record.raw import Span
from pqevidence.record.untimed import untimed_reasons
from pqevidence.scenario.attacks import attacked
from pqtunnel.blackout import EPOCH_SHIFT

COVERAGE_PCT = (95.0, 101.0)
WINDOW_SLACK_NS, WINDOW_SLACK_VIRTUAL_NS = 20_000_000, 1_000_000
WAIT_SLACK_NS = 50_000
#: the scheduler is read just outside of a wall, and may be a preemption away from it; a thread's own clock
#: stands still meanwhile
READING_SLACK_NS = 20_000_000
THREAD_CLOCK_SLACK_NS = 1_000_000
LEAST_HANDSHAKES = 5
#: what the drone sleeps between two handshakes, less what two clocks may differ by
PAUSE_NS = 1_900_000
#: share and ns by which the pause may differ between cells; 216 cells of all suites: 2.22 to 2.45 ms
PAUSE_REAL, PAUSE_VIRTUAL = (1.5, 1_000_000), (1.0, 200_000)
#: how long a drone hears nothing before it dials again (docs/PROTOCOL.md, section 7)
SILENCE_NS = 3_000_000_000
SAME_TIMES_SHARE = 0.01
DRONE_AWAY = ("send_hello", "wait_server_hello", "send_client_kem", "wait_finished")
GROUND_KINDS = ("crypto", "kdf", "codec")
#: modes of the handshakes before the traffic
TIMED = (COLD, POOLED)


def span_coverage(cell: CellView, tally: Tally) -> None:
    """In every handshake and on each host the steps sum to 95–101 % of the wall that was measured apart."""
    for handshake_id, hosts in cell.timed.items():
        for host, spans in hosts.items():
            wall = spans.wall
            if wall is None or wall.duration_ns <= 0:
                tally.fail(f"{cell.label} {host} {handshake_id}: no wall")
                continue
            percent = 100 * spans.steps_ns / wall.duration_ns
            tally.see(percent)
            if not COVERAGE_PCT[0] <= percent <= COVERAGE_PCT[1]:
                tally.fail(f"{cell.label} {host} {handshake_id}: spans are {percent:.1f} % of it")
    tally.unit = "walls"


def own_suite(cell: CellView, tally: Tally) -> None:
    """Handshakes before the traffic are of the cell's own suite, and its link document is of this cell: raw
    files of another cell were not put in their place. A rekey may switch suites, so it is not looked at."""
    told = {span.suite_id for span in cell.raw.spans or [] if span.mode in TIMED}
    tally.see()
    for suite_id in sorted(told - {str(cell.plan["suite_id"])}):
        tally.fail(f"{cell.label}: spans of {suite_id}")
    if cell.raw.link is not None:
        owner = cell.raw.link.get("cell_id")
        tally.require(owner == cell.cell_id, f"{cell.label}: link.json of cell {owner}")


def span_order(cell: CellView, tally: Tally) -> None:
    """On one host the steps of a handshake follow one another, forward in time, inside the wall. So does what
    the scheduler counted meanwhile; primitives have no more processor time than their thread."""
    tally.see()
    for handshake_id, hosts in cell.timed.items():
        for host, spans in hosts.items():
            wall, steps = spans.wall, spans.steps
            where = f"{cell.label} {host} {handshake_id}"
            for span in steps:
                if span.end_ns < span.start_ns:
                    tally.fail(f"{where}: {span.step} ends before it starts")
                if wall is not None and (span.start_ns < wall.start_ns or wall.end_ns < span.end_ns):
                    tally.fail(f"{where}: {span.step} lies outside the wall")
            for problem in scheduling_problems(wall, steps):
                tally.fail(f"{where}: {problem}")
            for before, after in pairwise(steps):
                if before.end_ns > after.start_ns:
                    tally.fail(f"{where}: {before.step} overlaps {after.step}")


def scheduling_problems(wall: Span | None, steps: list[Span]) -> list[str]:
    """What cannot be true of the scheduler's counts of one end's handshake; they are read just outside of
    what they count."""
    found = []
    for span in [*steps, *([wall] if wall else [])]:
        cpu_ns, runqueue_ns = span.cpu_ns or 0, span.runqueue_ns or 0
        if cpu_ns < 0 or runqueue_ns < 0 or (span.involuntary or 0) < 0:
            found.append(f"{span.step} has a negative count of the scheduler")
        busy_ns = cpu_ns + runqueue_ns
        slack_ns = THREAD_CLOCK_SLACK_NS if span.runqueue_ns is None else READING_SLACK_NS
        if busy_ns > span.end_ns - span.start_ns + slack_ns:
            found.append(f"{span.step} of {span.duration_ns} ns ran and waited {busy_ns} ns")
    if wall is not None and wall.cpu_ns is not None:
        primitives_ns = sum(span.cpu_ns or 0 for span in steps if span.kind == "crypto")
        if primitives_ns > wall.cpu_ns + THREAD_CLOCK_SLACK_NS:
            found.append(f"primitives ran {primitives_ns} ns in a thread that ran {wall.cpu_ns} ns")
    return found


def span_window(cell: CellView, tally: Tally) -> None:
    """All handshakes lie in their labelled window. The agents' events give both clocks, and so the
    difference; without them the handshakes must at least fit in the window's length."""
    tally.see()
    if not cell.shakes:
        return
    labels = {name: (start, end) for name, start, end in cell.labelled()}
    _within(cell, tally, cell.handshakes, labels["handshake_cold"])
    if cell.pooled:
        _within(cell, tally, cell.pooled, labels["handshake_pooled"])


def _within(cell: CellView, tally: Tally, handshakes: dict[str, Ends], label: tuple[int, int]) -> None:
    start, end = label
    virtual = cell.run.scenario.get("ring") == "sim"
    slack_ns = WINDOW_SLACK_VIRTUAL_NS if virtual else WINDOW_SLACK_NS
    for host in ("drone", "gcs"):
        walls = [w for hosts in handshakes.values() if (w := end_of(hosts, host).wall)]
        if not walls:
            continue
        first, last = min(wall.start_ns for wall in walls), max(wall.end_ns for wall in walls)
        offsets = [
            int(event["t_ns"]) - int(event["mono_ns"])
            for event in cell.raw.events
            if event.get("host") == host and isinstance(event.get("mono_ns"), int)
        ]
        where = f"{cell.label} {host}"
        if offsets:
            shift = int(median(offsets))
            inside = start - slack_ns <= first + shift and last + shift <= end + slack_ns
            tally.require(inside, f"{where}: handshakes lie outside their window")
        else:
            fits = last - first <= end - start + slack_ns
            tally.require(fits, f"{where}: handshakes over {(last - first) / 1e9:.3f} s in a shorter window")


def network_wait(cell: CellView, tally: Tally) -> None:
    """The drone is on the network at least as long as the ground works for it in the same handshake.

    Counted from the Hello on: the Challenge is made while `connect` returns. The drone's time inside its
    send calls counts, because on a shared core the kernel runs the peer within them; the ground's own sends
    do not, because the drone goes on before they return.

    A handshake that the ground completed and the drone did not (its last message came too late, or never) has
    spans of the ground alone; the drone says of each that it failed.
    """
    alone: list[str] = []
    for handshake_id, hosts in cell.timed.items():
        if not end_of(hosts, "gcs").steps:
            tally.fail(f"{cell.label} {handshake_id}: spans of the drone alone")
            continue
        if not end_of(hosts, "drone").steps:
            alone.append(handshake_id)
            continue
        tally.see()
        if not waited_enough(hosts):
            waited, worked = _away_and_at_work(hosts)
            text = f"drone waited {waited / 1e6:.3f} ms, ground worked {worked / 1e6:.3f} ms"
            tally.fail(f"{cell.label} {handshake_id}: {text}")
    told = [event for event in cell.raw.events if event.get("event") == "handshake_failed"]
    failed = sum(event.get("host") == "drone" for event in told)
    if len(alone) > failed:
        tally.fail(
            f"{cell.label}: {len(alone)} handshakes of the ground alone in spans.ndjson, first {alone[0]}, "
            f"{failed} failed at the drone by events.ndjson"
        )
    tally.unit = "handshakes"


def waited_enough(hosts: Ends) -> bool:
    """Was the drone on the network as long as the ground worked for it? As `network_wait` asks."""
    waited, worked = _away_and_at_work(hosts)
    return waited + WAIT_SLACK_NS >= worked


def _away_and_at_work(hosts: Ends) -> tuple[int, int]:
    drone, ground = end_of(hosts, "drone").steps, end_of(hosts, "gcs").steps
    waited = sum([s.end_ns - s.start_ns for s in drone if s.step in DRONE_AWAY])
    worked = sum([s.end_ns - s.start_ns for s in ground if s.kind in GROUND_KINDS and s.step != "challenge"])
    return waited, worked


def handshake_count(cell: CellView, tally: Tally) -> None:
    """Handshakes counted at both ends = handshakes traced at both ends, and at least as many cold ones as the
    scenario asks for."""
    least = _least(cell)
    spans = cell.raw.spans or []
    for host in ("drone", "gcs"):
        traced = len({span.handshake_id for span in spans if span.host == host and span.step == "handshake"})
        counted = int((cell.raw.counters or {})[host]["hs_completed"])
        tally.require(traced == counted, f"{cell.label} {host}: {counted} counted, {traced} traced")
    cold = sum(1 for hosts in cell.handshakes.values() if end_of(hosts, "drone").wall)
    tally.see(cold)
    if not cell.shakes:
        tally.require(not spans, f"{cell.label}: {len(spans)} spans in a suite that makes no handshake")
        return
    tally.require(cold >= least, f"{cell.label}: {cold} cold handshakes, {least} are due")


def told_alike(cell: CellView, tally: Tally) -> None:
    """The controller's account of the block, both ends' counters, the spans' numbers and the epoch in which
    the datagrams were sent agree: nobody took handshakes, slow or failed, out of one of them."""
    if not cell.shakes:
        return
    tally.see()
    where, condition = cell.label, cell.run.condition(str(cell.plan["condition"]))
    blocks = [event for event in cell.raw.events if event.get("event") == "handshake_block"]
    failed = sum(int(event["failed"]) for event in blocks)
    for event in blocks:
        name = "pooled" if event.get("pooled") else "cold"
        traced = sum(1 for hosts in cell.timed.values() if _mode_of(hosts) == name)
        done = int(event["completed"])
        tally.require(
            done == traced, f"{where}: {done} {name} handshakes in events.ndjson, {traced} in spans.ndjson"
        )
    drone = [span for span in cell.raw.spans or [] if span.mode == COLD and span.host == "drone"]
    numbers = sorted({span.number for span in drone if span.number is not None})
    if failed == 0 and numbers:
        whole = numbers == list(range(len(cell.handshakes)))
        tally.require(
            whole,
            f"{where}: {len(cell.handshakes)} handshakes in spans.ndjson are numbered {numbers[0]} to "
            f"{numbers[-1]}, and events.ndjson tells of none that failed",
        )
    _operations(cell, tally)
    counted = (cell.raw.counters or {})["drone"]
    begun, done = int(counted["hs_started"]), int(counted["hs_completed"])
    undisturbed = not (cell.impaired or attacked(condition) or condition.get("events"))
    if undisturbed and blocks:
        ground = (cell.raw.counters or {})["gcs"]
        # a rekey that the end of its window cut off was begun, too
        cut_off = int(counted.get("rekey_started", 0)) - int(counted.get("rekey_completed", 0))
        for role, lost in (
            ("drone", begun - done),
            ("gcs", int(ground["hs_started"]) - int(ground["hs_completed"])),
        ):
            tally.require(
                lost <= failed + cut_off,
                f"{where}: the {role} began {lost} handshakes that it did not complete (counters.json), "
                f"{failed} failed by events.ndjson",
            )
        _asked(cell, blocks, tally)
    if undisturbed and begun == done and "drone" in cell.raw.ledgers and has_witnesses(cell.run):
        keys = cell.raw.ledgers["drone"].tx.key
        newest = max(keys) >> EPOCH_SHIFT if keys else None
        told = newest is None or newest + 1 <= done <= newest + 1 + int(counted.get("rekey_completed", 0))
        tally.require(
            told,
            f"{where}: {done} handshakes in counters.json, ledger.drone.csv was sent in epoch "
            f"{newest} at last",
        )


def _operations(cell: CellView, tally: Tally) -> None:
    """For a handshake that is complete the ground signed and decapsulated, the drone encapsulated and
    verified."""
    for role, names in (("drone", ("hs_encaps", "hs_verifies")), ("gcs", ("hs_decaps", "hs_signatures"))):
        counted = (cell.raw.counters or {})[role]
        for name in names:
            made, done = int(counted.get(name, 0)), int(counted["hs_completed"])
            tally.require(
                made >= done,
                f"{cell.label}: {name} of the {role} is {made} in counters.json, {done} handshakes were made",
            )


def paused(cell: CellView, tally: Tally) -> None:
    """Between two handshakes of a block the drone rests for 2 ms and goes on: the pause is no shorter, and no
    longer than in other cells of the run. Who shortens handshakes leaves holes, who moves them together
    leaves none; and who calls some of them rekeys or redials leaves these in the block. Over a link that
    delays, the first packet of a session is waited for, too: such cells are not compared."""
    walls = sorted(
        (wall.start_ns, wall.end_ns)
        for hosts in cell.handshakes.values()
        if (wall := end_of(hosts, "drone").wall) is not None
    )
    if len(walls) < LEAST_HANDSHAKES or not has_witnesses(cell.run):
        return
    pauses = [after[0] - before[1] for before, after in pairwise(walls)]
    middle = median(pauses)
    tally.see(middle / 1e6)
    told = f"{cell.label}: the drone paused {{:.3f}} ms between two handshakes of spans.ndjson"
    tally.require(min(pauses) >= PAUSE_NS, f"{told.format(min(pauses) / 1e6)}, it rests for 2 ms")
    _none_between(cell, walls, tally)
    if untimed_reasons(cell.run.hosts) or cell.impaired:
        return  # the end of a connection takes as long as the link delays it
    known = cell.bundle.pauses
    known[cell.label, id(cell.run)] = middle
    least = min(value for (_, run), value in known.items() if run == id(cell.run))
    most = max(value for (_, run), value in known.items() if run == id(cell.run))
    share, slack_ns = PAUSE_VIRTUAL if cell.run.scenario.get("ring") == "sim" else PAUSE_REAL
    if most > least * share + slack_ns:
        tally.fail(
            f"{told.format(middle / 1e6)} by the median; in other cells of this run {least / 1e6:.3f} to "
            f"{most / 1e6:.3f} ms: it does not depend on the suite"
        )


def _none_between(cell: CellView, walls: list[tuple[int, int]], tally: Tally) -> None:
    """A rekey belongs to the traffic, which comes after the block; a redial begins after 3 s of silence."""
    for span in cell.raw.spans or []:
        if span.host != "drone" or span.step != "handshake" or span.mode in TIMED:
            continue
        before = [end_ns for start_ns, end_ns in walls if start_ns < span.start_ns]
        if not before or len(before) == len(walls):
            continue
        silent_ns = span.start_ns - max(before)
        if span.mode == "redial" and silent_ns >= SILENCE_NS:
            continue
        tally.fail(
            f"{cell.label}: a {span.mode} of the drone began {silent_ns / 1e6:.3f} ms after a handshake of "
            "the block, and others of the block came later (spans.ndjson)"
        )


def _mode_of(hosts: Ends) -> str | None:
    wall = end_of(hosts, "drone").wall
    return wall.mode if wall else None


def _least(cell: CellView) -> int:
    shake = part_of(cell.run.scenario, "handshake", {})
    return whole_of(shake, "min_count") if "min_count" in shake else LEAST_HANDSHAKES


def _asked(cell: CellView, blocks: list[Json], tally: Tally) -> None:
    """Fewer cold handshakes than the scenario asks for are those that the time for them ended."""
    shake = part_of(cell.run.scenario, "handshake", {})
    label = next((row for row in cell.labelled() if row[0] == "handshake_cold"), None)
    cold = next((event for event in blocks if not event.get("pooled")), None)
    if label is None or cold is None or not {"count", "max_s"} <= set(shake):
        return
    done, due, took_s = (
        whole_of(cold, "completed") + whole_of(cold, "failed"),
        whole_of(shake, "count"),
        (label[2] - label[1]) / 1e9,
    )
    tally.require(
        done == due or (done < due and took_s >= 0.9 * number_of(shake, "max_s")),
        f"{cell.label}: {done} handshakes in events.ndjson, scenario.effective.yml asks for {due}, and "
        f"{took_s:.2f} s of {shake['max_s']} s had passed",
    )


def pooled_apart(cell: CellView, tally: Tally) -> None:
    """Each handshake is of one mode at both ends; a pooled one took a ready key pair, a cold one made its
    own; as many pooled ones as the scenario asks for, none where it asks for none."""
    mixed = sorted(set(cell.handshakes) & set(cell.pooled))
    tally.require(not mixed, f"{cell.label}: {len(mixed)} handshakes cold at one end, pooled at the other")
    for mode, handshakes in (("cold", cell.handshakes), ("pooled", cell.pooled)):
        for handshake_id, hosts in handshakes.items():
            ground = end_of(hosts, "gcs")
            told = {span.keygen for span in (*ground.steps, ground.wall) if span}
            made = sorted(keygen for keygen in told if keygen is not None)
            where = f"{cell.label} {handshake_id}"
            tally.require(made in ([], [mode]), f"{where}: {mode}, its key pair was {', '.join(made)}")
            if mode == "pooled":
                tally.require(bool(made), f"{where}: pooled, and no word where its key pair came from")
    done = sum(1 for hosts in cell.pooled.values() if end_of(hosts, "drone").wall)
    due = cell.pooled_due or 0
    tally.see(done)
    least = min(due, _least(cell))
    tally.require(least <= done <= due, f"{cell.label}: {done} pooled handshakes, {due} were asked for")


def primitive_sizes_match(cell: CellView, tally: Tally) -> None:
    """Sizes that the spans carry are those of their own suite's algorithms (a rekey may have switched it),
    and the record tells the largest of the cell's suite."""
    suite = suite_of(str(cell.plan["suite_id"]))
    due = primitive_sizes(suite)
    if suite is None or due is None:
        tally.fail(f"{cell.label}: the registry does not know this suite")
        return
    tally.see()
    algorithms = {
        "kem_algorithm": suite.kem.name,
        "sig_algorithm": suite.sig.name,
        "aead_algorithm": suite.aead.name,
    }
    for name, algorithm in algorithms.items():
        told = cell.value("B", name)
        tally.require(told == algorithm, f"{cell.label}: {name} {told}, the suite has {algorithm}")
    for name, step in SIZED_STEPS.items():
        made = [span for span in cell.raw.spans or [] if span.step == step]
        for span in made:
            own = suite_of(span.suite_id)
            size = (primitive_sizes(own) or due)[name]
            at_most = step == "sign" and own is not None and own.sig.variable_length
            told = span.size_bytes
            right = told is not None and (0 < told <= size if at_most else told == size)
            tally.require(right, f"{cell.label}: {step} made {told} bytes, {size} are due")
        ours = [span for span in made if span.mode == "cold" and span.host == PRIMITIVE_HOST[step]]
        cold = [span.size_bytes for span in ours if span.size_bytes is not None]
        largest = max(cold, default=None)
        told = cell.value("E", f"{name}_size_bytes")
        tally.require(told == largest, f"{cell.label}: record {name} {told} bytes, spans {largest}")
    told = cell.value("E", "shared_secret_size_bytes")
    secret = None if suite.is_plain else due["shared_secret"]
    tally.require(told == secret, f"{cell.label}: shared secret of {told} bytes")


def level_dependence(bundle: BundleView, tally: Tally) -> None:
    """Handshake medians that agree to 1 % over three or more suites of two or more levels measure a sleep,
    not cryptography. Each condition by itself: fewer suites, or one level, cannot show it, and where the link
    is impaired the link's own delay makes them alike."""
    told: dict[str, dict[str, list[float]]] = {}
    level_of: dict[str, int] = {}
    for cell in bundle.cells:
        value = cell.record["categories"]["D"]["handshake_total_duration_ms"]["value"]
        suite = suite_of(str(cell.plan["suite_id"]))
        if cell.verdict == "pass" and value is not None and suite is not None and not cell.impaired:
            by_suite = told.setdefault(str(cell.plan["condition"]), {})
            by_suite.setdefault(suite.id, []).append(float(value))
            level_of[suite.id] = suite.level
    judged = 0
    for condition, by_suite in sorted(told.items()):
        medians = [median(values) for values in by_suite.values()]
        for value in medians:
            tally.see(value)
        levels = {level_of[suite] for suite in by_suite}
        if len(medians) < 3 or len(levels) < 2:
            continue
        judged += 1
        spread = (max(medians) - min(medians)) / median(medians)
        text = f"{condition}: {len(medians)} suites of {len(levels)} levels within {100 * spread:.2f} %"
        tally.require(spread > SAME_TIMES_SHARE, text)
    tally.looked = len(level_of)
    if not judged:
        tally.note = "too few suites or levels to tell"
