"""What a bundle says beside its numbers, and witnesses that nobody asked before these forgeries."""

from __future__ import annotations

import hashlib
import shutil
from itertools import pairwise

from adversary.catalogue import forgery
from adversary.forgeries.relabel import digest
from adversary.raw import MS, ROLES, Bundle, Cell, Json, load, save, scaled, wall_ns


@forgery("readers misled", "lab", "sim", last=True)
def dictionary_of_another_unit(bundle: Bundle) -> None:
    """Handshakes last microseconds: the dictionary of fields in the bundle says so."""
    path = bundle.data / "format" / "fields.json"
    text = path.read_text(encoding="utf-8")
    assert '"ms"' in text
    path.write_text(text.replace('"ms"', '"us"'), encoding="utf-8")


@forgery("readers misled", "lab", "sim", last=True)
def package_of_another_unit(bundle: Bundle) -> None:
    """Columns in milliseconds are in seconds, says the data package that tools read units from."""
    path = bundle.data / "datapackage.json"
    text = path.read_text(encoding="utf-8")
    assert '"ms"' in text
    path.write_text(text.replace('"ms"', '"s"'), encoding="utf-8")
    _sized(bundle)


@forgery("readers misled", "lab", "sim", last=True)
def crate_of_another_campaign(bundle: Bundle) -> None:
    """Catalogues and search engines describe the run as one on a Raspberry Pi 5, a year earlier."""

    def other(document: Json) -> None:
        for entity in document["@graph"]:
            if entity.get("@id") == "./":
                entity.update(
                    name="Tunnel campaign on a Raspberry Pi 5", datePublished="2025-03-01T12:00:00+00:00"
                )

    bundle.edit("ro-crate-metadata.json", other)
    _sized(bundle)


@forgery("readers misled", "lab", last=True)
def schema_that_lets_everything_by(bundle: Bundle) -> None:
    """Records are checked against the schema in the bundle, and any record fits it."""
    path = bundle.data / "format" / "record.schema.json"
    path.write_text('{"$schema": "https://json-schema.org/draft/2020-12/schema"}\n', encoding="utf-8")
    _sized(bundle)


def _sized(bundle: Bundle) -> None:
    """Sizes in the crate are those of the files."""

    def sizes(document: Json) -> None:
        for entity in document["@graph"]:
            if entity.get("@type") == "File" and "contentSize" in entity:
                entity["contentSize"] = str((bundle.data / entity["@id"]).stat().st_size)

    bundle.edit("ro-crate-metadata.json", sizes)


@forgery("readers misled", "lab", "sim", last=True)
def two_values_of_one_key(bundle: Bundle) -> None:
    """A record has its time twice: the first one, which a reader sees, is a tenth of the last one, which a
    program takes."""
    for cell in bundle.cells:
        path = cell.folder / "record.json"
        text = path.read_text(encoding="utf-8")
        name = '"handshake_total_duration_ms": {'
        assert name in text
        field = '"handshake_total_duration_ms": {"value": 0.1, "unit": "ms", "validity": "ok", "n": 12},\n'
        path.write_text(text.replace(name, field + name, 1), encoding="utf-8")
    digest(bundle)
    _sized(bundle)


@forgery("readers misled", "lab", last=True)
def two_seeds_in_the_plan(bundle: Bundle) -> None:
    """The plan names the published seed first, and the one that was used after it."""
    path = bundle.data / "plan.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("{", '{"seed": 424242, ', 1), encoding="utf-8")
    digest(bundle)
    _sized(bundle)


@forgery("extra files", "sim", "lab", pages=False)
def table_by_hand(bundle: Bundle) -> None:
    """A table beside the others has the numbers that everybody wants."""
    (bundle.data / "analysis" / "summary.csv").write_text("suite_id,median_ms\nall,0.1\n")


@forgery("extra files", "sim", "lab")
def trace_that_nobody_names(bundle: Bundle) -> None:
    """The run replayed a flight's radio trace: it lies in the bundle."""
    text = b"t_ms,rate_kbit_s,delay_ms,loss\n0,1000,20,0\n"
    (bundle.data / "traces").mkdir(exist_ok=True)
    (bundle.data / "traces" / f"{hashlib.sha256(text).hexdigest()}.csv").write_bytes(text)


@forgery("extra files", "lab", "sim")
def readings_of_a_bus_nobody_has(bundle: Bundle) -> None:
    """The power of a cell was sampled: its file is there, whatever the records say."""
    (bundle.cells[0].folder / "power.drone.csv").write_text(
        '{"sensor": "ina219", "rate_hz": 1000}\nt_ns,voltage_v,current_a,flags,lateness_ns\n'
    )


@forgery("extra files", "lab", "sim")
def detectors_of_another_campaign(bundle: Bundle) -> None:
    """Detectors took part, asleep: readings of their processor time lie in each cell."""
    for cell in bundle.cells:
        reading = {"xgboost": {"cpu_ns": 10**9, "rss_bytes": 10**7, "t_ns": cell.wall[0]}}
        save(cell.folder / "detectors.json", {"before": reading, "after": reading})


@forgery("extra files", "lab", "sim")
def observers_of_another_campaign(bundle: Bundle) -> None:
    """What observing costs was read in each cell."""
    for cell in bundle.cells:
        save(cell.folder / "observers.json", {"before": {"containers": {}}, "after": {"containers": {}}})


@forgery("extra files", "lab", "sim")
def link_of_another_campaign(bundle: Bundle) -> None:
    """A router that lost nothing was in the path."""
    for cell in bundle.cells:
        counts = {"offered": 2000, "delivered": 2000, "lost": 0, "late_count": 2000, "late_sum_ns": 0}
        save(
            cell.folder / "link.json",
            {"cell_id": cell.row["cell_id"], "router": {"up": counts, "down": counts}},
        )


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


def _slowest(cell: Cell, share: int) -> tuple[dict[str, list[Json]], list[str]]:
    found = cell.handshakes()
    return found, sorted(found, key=lambda key: wall_ns(found[key]))[-(len(found) // share) :]


def _called(bundle: Bundle, mode: str) -> None:
    """The slowest third are of another mode; events, numbers and scenario fit."""
    for cell in bundle.cells:
        found, slow = _slowest(cell, 3)
        kept = [key for key in found if key not in slow]
        for number, key in enumerate([*kept, *slow]):
            for row in found[key]:
                row["index"] = number
                if key in slow and (row["host"] == "drone" or mode == "rekey"):
                    row["mode"] = mode
        cell.put_handshakes(found)
        for event in (rows := cell.lines("events.ndjson")):
            if event["event"] == "handshake_block":
                event["completed"] = len(kept)
        cell.put_lines("events.ndjson", rows)
        cell.log_from_events()
        if mode == "rekey":

            def rekeyed(both: Json, count: int = len(slow)) -> None:
                both["drone"].update(rekey_started=count, rekey_completed=count)

            cell.counters(rekeyed)
    bundle.scenario(lambda s: s["handshake"].update(count=s["handshake"]["count"] * 2 // 3))


@forgery("called something else", "sim", "lab")
def slowest_called_redials(bundle: Bundle) -> None:
    """The slowest third of the handshakes were no cold ones: they were made after a silence."""
    _called(bundle, "redial")


@forgery("called something else", "sim", "lab")
def slowest_called_rekeys(bundle: Bundle) -> None:
    """The slowest third of the handshakes were no cold ones: they were rekeys."""
    _called(bundle, "rekey")


@forgery("called something else", "sim", "lab")
def primitives_called_codec(bundle: Bundle) -> None:
    """Signing and decapsulation are no cryptography but the packing of messages."""
    for cell in bundle.cells:

        def renamed(row: Json) -> None:
            if row["step"] in ("sign", "decaps"):
                row["kind"] = "codec"

        cell.change_lines("spans.ndjson", renamed)


@forgery("called something else", "sim", "lab")
def time_on_the_network_was_input(bundle: Bundle) -> None:
    """The drone waits for nobody: what it waits for the ground station is its own input and output."""
    for cell in bundle.cells:

        def renamed(row: Json) -> None:
            if row["kind"] == "network_wait":
                row["kind"] = "io"

        cell.change_lines("spans.ndjson", renamed)


@forgery("called something else", "lab", "sim")
def verification_called_signing(bundle: Bundle) -> None:
    """Who signs fast and who verifies slowly change places in the steps' names."""
    swap = {"encaps": "verify", "verify": "encaps"}
    for cell in bundle.cells:
        cell.change_lines("spans.ndjson", lambda row: row.update(step=swap.get(row["step"], row["step"])))


@forgery("times scaled", "lab", "sim")
def work_of_a_primitive_moved_to_another_step(bundle: Bundle) -> None:
    """Decapsulation of one suite costs half of what it costs in its sister suite; the rest of it lies in the
    step that follows, walls are as they were."""
    for cell in bundle.cells:
        if "mlkem768-aesgcm" not in cell.suite:
            continue
        found = cell.handshakes()
        for rows in found.values():
            ground = sorted((r for r in rows if r["host"] == "gcs"), key=lambda r: r["start_ns"])
            steps = [r for r in ground if r["step"] != "handshake"]
            for before, after in pairwise(steps):
                if before["step"] == "decaps":
                    half = (before["end_ns"] - before["start_ns"]) // 2
                    gap = after["start_ns"] - before["end_ns"]
                    before["end_ns"] -= half
                    after["start_ns"] = before["end_ns"] + gap
                    if isinstance(before.get("cpu_ns"), int):
                        before["cpu_ns"] -= half
        cell.put_handshakes(found)


@forgery("times scaled", "lab", "sim")
def slowest_brought_to_the_median(bundle: Bundle) -> None:
    """No handshake took much longer than the others: the slowest third are as long as the median, and each
    rest that follows is longer by as much."""
    for cell in bundle.cells:
        found, slow = _slowest(cell, 3)
        walls = sorted(wall_ns(rows) for rows in found.values())
        middle = walls[len(walls) // 2]
        for number, key in enumerate(slow):
            scaled(found[key], (middle + 37 * number) / wall_ns(found[key]))
        cell.put_handshakes(found)


@forgery("times scaled", "lab", witnessed=False)
def tail_of_latency_cut(bundle: Bundle) -> None:
    """One datagram in twenty took longer than it did: the slowest arrived as early as the 90th percentile."""
    for cell in bundle.cells:
        for sender, receiver in (("drone", "gcs"), ("gcs", "drone")):
            sent = {(r[1], r[2]): int(r[4]) for r in cell.ledger(sender) if r[0] == "tx"}
            rows = cell.ledger(receiver)
            took = sorted(int(r[5]) - sent[r[1], r[2]] for r in rows if r[0] == "rx")
            limit = took[9 * len(took) // 10]
            for number, row in enumerate(rows):
                if row[0] == "rx" and (over := int(row[5]) - sent[row[1], row[2]] - limit) > 0:
                    less = over + number % 5
                    row[4], row[5] = str(int(row[4]) - less), str(int(row[5]) - less)
            cell.put_ledger(receiver, rows)


@forgery("times scaled", "lab")
def round_trips_shortened(bundle: Bundle) -> None:
    """The vehicle answers in a tenth of the time; both ways of the tunnel took longer than that."""
    for cell in bundle.cells:

        def shorter(traffic: Json) -> None:
            report = traffic["windows"]["traffic"]["gcs"]["source_report"]
            report["rtt_ms"] = [value / 10 for value in report["rtt_ms"]]

        cell.edit("traffic.json", shorter)


@forgery("counts beside the tunnel", "lab", "sim")
def source_sent_twice_as_many_bytes(bundle: Bundle) -> None:
    """The vehicle's frames were twice as large as what the tunnel sealed."""
    for cell in bundle.cells:

        def more(traffic: Json) -> None:
            for role in ROLES:
                traffic["windows"]["traffic"][role]["source_report"]["sent"]["bytes"] *= 2

        cell.edit("traffic.json", more)


@forgery("counts beside the tunnel", "lab", "sim")
def source_sent_a_hundred_more(bundle: Bundle) -> None:
    """The vehicle sent more frames than the tunnel took."""
    for cell in bundle.cells:

        def more(traffic: Json) -> None:
            traffic["windows"]["traffic"]["drone"]["source_report"]["sent"]["count"] += 100

        cell.edit("traffic.json", more)


@forgery("counts beside the tunnel", "lab", "sim")
def sizes_of_another_mix(bundle: Bundle) -> None:
    """Frames were of other sizes than the datagrams that carried them."""
    for cell in bundle.cells:

        def other(traffic: Json) -> None:
            for role in ROLES:
                sent = traffic["windows"]["traffic"][role]["source_report"]["sent"]
                sent["sizes"] = {"280": sent["count"]}

        cell.edit("traffic.json", other)


@forgery("counts beside the tunnel", "lab", "sim")
def totals_of_another_session(bundle: Bundle) -> None:
    """Sealing and opening cost a tenth over the whole cell; the windows, of which it is the sum, say
    otherwise."""
    for cell in bundle.cells:

        def less(both: Json) -> None:
            for counted in both.values():
                for name in ("seal_ns_total", "open_ns_total"):
                    counted[name] //= 10

        cell.edit("counters.json", less)


@forgery("counts beside the tunnel", "lab", "sim")
def refusals_in_the_windows_alone(bundle: Bundle) -> None:
    """Nothing was refused in the cell; a window counts forty replayed datagrams."""
    for cell in bundle.cells:

        def told(both: Json) -> None:
            both["gcs"]["windows"]["traffic"]["replay"] += 40

        cell.edit("counters.json", told)


@forgery("counts beside the tunnel", "lab", "sim")
def operations_that_were_not_counted(bundle: Bundle) -> None:
    """The ground station signed once for all handshakes: half of what it counts was never done."""
    for cell in bundle.cells:

        def fewer(both: Json) -> None:
            for name in ("hs_signatures", "hs_decaps"):
                if both["gcs"].get(name):
                    both["gcs"][name] //= 2

        cell.edit("counters.json", fewer)


@forgery("verdicts flipped", "watched")
def card_of_a_better_model(bundle: Bundle) -> None:
    """The shipped detector, known by its digest, decides in a tenth of the time that its card has."""

    def better(both: Json) -> None:
        card = both["detectors"]["xgboost"]["card"]
        card["inference"]["median_us"] /= 10

    bundle.edit("providers.json", better)
    bundle.rename()


@forgery("verdicts flipped", "watched", witnessed=False)
def detector_of_little_memory(bundle: Bundle) -> None:
    """The detector needed a tenth of the memory that it needed."""
    for cell in bundle.cells:

        def less(usage: Json) -> None:
            for edge in ("before", "after"):
                usage[edge]["xgboost"]["rss_bytes"] //= 10

        cell.edit("detectors.json", less)


@forgery("verdicts flipped", "watched")
def known_attack_of_another_rate(bundle: Bundle) -> None:
    """The known attack was a weak one: a tenth of the datagrams that were sent and refused."""
    for cell in bundle.cells:

        def weaker(row: Json) -> None:
            if "rate_pps" in row:
                row["rate_pps"] = row["rate_pps"] / 10

        cell.change_lines("canary/attack.ndjson", weaker)


@forgery("losses erased", "lossy", witnessed=False)
def router_that_added_no_delay(bundle: Bundle) -> None:
    """The router itself added a hundredth of the delay that it added: latency is the tunnel's."""
    for cell in bundle.cells:

        def less(link: Json) -> None:
            for way in ("up", "down"):
                for name in ("late_sum_ns", "delay_sum_ns"):
                    if name in link["router"][way]:
                        link["router"][way][name] //= 100

        cell.edit("link.json", less)


@forgery("losses erased", "lossy")
def probes_of_a_better_link(bundle: Bundle) -> None:
    """Probes found the link to lose nothing at all, by their shares; their counts say otherwise."""
    for cell in bundle.cells:

        def better(link: Json) -> None:
            for probe in link["probes"].values():
                if not isinstance(probe, dict):
                    continue
                for way in ("up", "down"):
                    if isinstance(probe.get(way), dict):
                        for name in ("loss_pct", "loss_low_pct"):
                            if name in probe[way]:
                                probe[way][name] = 0.0

        cell.edit("link.json", better)


@forgery("options taken back", "lab", "sim")
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


@forgery("processor time", "lab", witnessed=False)
def tunnel_of_little_memory(bundle: Bundle) -> None:
    """Both tunnels needed a tenth of the memory that they needed."""
    for cell in bundle.cells:

        def less(_series: str, _tags: str, fields: dict[str, str], t_ns: int) -> int:
            if "rss_bytes" in fields:
                fields["rss_bytes"] = f"{int(fields['rss_bytes'][:-1]) // 10}i"
            return t_ns

        for role in ROLES:
            cell.telemetry(role, less)


@forgery("order and seeds", "lab", "sim", witnessed=False)
def budget_foretold_afterwards(bundle: Bundle) -> None:
    """The run foretold to the second how long it would take."""
    run = load(bundle.data / "run.json")
    took_s = (run["ended_ns"] - run["started_ns"]) / 1e9
    bundle.edit("plan.json", lambda plan: plan["budget"].update(eta_s=took_s))
