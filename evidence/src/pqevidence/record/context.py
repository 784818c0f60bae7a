"""Categories A, B, C and I–M: the run, the suite, the clock, and what the traffic sources said."""

from __future__ import annotations

from pqbase.documents import rows_of
from pqbase.text import utc_text_ms
from pqevidence.record.dataplane import TRAFFIC, DataPlane, window_told
from pqevidence.record.raw import ROLES, Json, RawCell, RawRun
from pqevidence.record.sheet import Sheet, as_value
from pqtunnel import suites as registry
from pqtunnel.errors import SuiteUnknown

#: labelled, so that the time is accounted for, but nothing is measured in them
EXEMPT_WINDOWS = ("thermal_gate", "link_setup", "link_probe", "key_pool", "canary", "heal")
NO_WINDOW = "no traffic window in this cell"
NOT_COUNTED = "the traffic source of this version does not report it"


def suite_of(suite_id: str) -> registry.Suite | None:
    """The registry's suite, or None for one it does not know."""
    try:
        return registry.get(suite_id)
    except SuiteUnknown:
        return None


def primitive_sizes(suite: registry.Suite | None) -> dict[str, int] | None:
    """Sizes in bytes as the registry has them."""
    if suite is None:
        return None
    return {
        "kem_public_key": suite.kem.public_key_bytes,
        "kem_ciphertext": suite.kem.ciphertext_bytes,
        "sig": suite.sig.signature_bytes,
        "shared_secret": suite.kem.shared_secret_bytes,
    }


def _dig(value: object, *path: str) -> object:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)


def fill_run_context(
    sheet: Sheet, plan_cell: Json, raw: RawRun, cell: RawCell, wall: tuple[int, int] | None
) -> None:
    """Category A."""
    unsaid = "the agent did not say"
    sheet.put("A", "run_id", _text(raw.plan.get("run_id")), absent="no run id in plan.json")
    sheet.put("A", "suite_id", str(plan_cell["suite_id"]))
    sheet.put("A", "suite_position_count", int(plan_cell["position"]))
    for role in ("drone", "gcs"):
        tree = _text(_dig(raw.providers, role, "pqtunnel", "tree_sha256"))
        sheet.put("A", f"tunnel_tree_sha256_{role}", tree, absent=unsaid)
        host = raw.host(role)
        sheet.put("A", f"{role}_hostname", _text(host.get("hostname")), absent=unsaid)
        sheet.put("A", f"{role}_address", _text(host.get("tunnel_address")), absent=unsaid)
        sheet.put("A", f"python_version_{role}", _text(_dig(raw.providers, role, "python")), absent=unsaid)
        sheet.put("A", f"kernel_version_{role}", _text(host.get("kernel")), absent=unsaid)
    sheet.put("A", "liboqs_version", _text(_dig(raw.providers, "drone", "liboqs", "version")), absent=unsaid)
    sheet.put("A", "openssl_version", _text(_dig(raw.providers, "drone", "openssl")), absent=unsaid)
    no_offset = "hosts with clocks of their own; the offset was not measured"
    sheet.put("A", "clock_offset_ms", 0.0 if raw.one_clock else None, absent=no_offset)
    sheet.put(
        "A", "clock_offset_method", "same kernel (equal boot id)" if raw.one_clock else None, absent=no_offset
    )
    none = "no controller event"
    sheet.put("A", "cell_start_utc", utc_text_ms(wall[0]) if wall else None, absent=none)
    sheet.put("A", "cell_end_utc", utc_text_ms(wall[1]) if wall else None, absent=none)
    mono = [
        e["mono_ns"] for e in cell.events if e.get("host") == "drone" and isinstance(e.get("mono_ns"), int)
    ]
    no_mono = "the drone's events carry no monotonic time"
    sheet.put("A", "cell_start_mono_s", min(mono) / 1e9 if mono else None, absent=no_mono)
    sheet.put("A", "cell_end_mono_s", max(mono) / 1e9 if mono else None, absent=no_mono)


def fill_identity(sheet: Sheet, suite: registry.Suite | None) -> None:
    """Category B."""
    if suite is None:
        sheet.null_rest("B", "the suite registry does not know this suite")
        return
    level = suite.level_label if suite.level_label in ("classical", "none") else f"L{suite.level}"
    for name, value in (
        ("kem_algorithm", suite.kem.name),
        ("kem_family", registry.KEM_FAMILIES[suite.kem.family]),
        ("kem_nist_level", level),
        ("sig_algorithm", suite.sig.name),
        ("sig_family", registry.SIG_FAMILIES[suite.sig.family]),
        ("sig_nist_level", level),
        ("aead_algorithm", suite.aead.name),
        ("suite_security_level", level),
    ):
        sheet.put("B", name, value)


def fill_lifecycle(
    sheet: Sheet, cell: RawCell, wall: tuple[int, int] | None, windows: list[Json], plane: DataPlane
) -> None:
    """Category C; everything relative to the cell's start on the controller's clock."""
    none = "no controller event"
    start = wall[0] if wall else None

    def offset_ms(t_ns: int | None) -> float | None:
        return None if t_ns is None or start is None else (t_ns - start) / 1e6

    prepared = [
        int(e["t_ns"]) for e in cell.events if e.get("event") == "prepare" and e.get("host") == "controller"
    ]
    shaken = [int(w["end_ns"]) for w in windows if w["name"] == "handshake_cold"]
    stopped = [int(e["t_ns"]) for e in cell.events if e.get("event") == "stop" and e.get("host") in ROLES]
    sheet.put(
        "C", "suite_selected_offset_ms", offset_ms(min(prepared, default=None)), absent="no prepare event"
    )
    sheet.put(
        "C", "suite_activated_offset_ms", offset_ms(max(shaken, default=None)), absent="no handshake window"
    )
    ended = offset_ms(max(stopped, default=None))
    sheet.put("C", "suite_deactivated_offset_ms", ended, absent="no stop event of an agent")
    waits = [w for w in windows if w["name"] in EXEMPT_WINDOWS]
    labelled_ms = sum(int(w["end_ns"]) - int(w["start_ns"]) for w in windows) / 1e6
    waited_ms = sum(int(w["end_ns"]) - int(w["start_ns"]) for w in waits) / 1e6
    active_ms = labelled_ms - waited_ms if len(windows) > len(waits) else None
    total_ms = (wall[1] - wall[0]) / 1e6 if wall else None
    sheet.put("C", "suite_total_duration_ms", total_ms, absent=none)
    sheet.put("C", "suite_active_duration_ms", active_ms, absent="no labelled window")
    overhead = total_ms - labelled_ms if total_ms is not None else None
    sheet.put("C", "overhead_ms", overhead, absent=none)
    sheet.put("C", "traffic_session_s", plane.gate_s.get(TRAFFIC), absent="no traffic window")


def fill_mavlink(sheet: Sheet, cell: RawCell, plane: DataPlane, wall: tuple[int, int] | None) -> None:
    """Categories I, J, K and L: counted at the tunnel's edge, or null; one frame is one datagram."""
    window = (cell.traffic or {}).get(TRAFFIC)
    if window is None:
        for letter in "IJKL":
            sheet.null_rest(letter, NO_WINDOW)
        return
    report = _dig(window, "drone", "source_report") or {}
    gate, seconds = plane.gate_ns.get(TRAFFIC), plane.gate_s.get(TRAFFIC)
    no_gate = "the drone did not report its gate"
    no_counter = "no counters of this window"
    for name, index in (("start", 0), ("end", 1)):
        value = (gate[index] - wall[0]) / 1e6 if gate and wall else None
        sheet.put("I", f"mavproxy_drone_{name}_offset_ms", value, absent=no_gate)
    taken = as_value(window_told(cell.counters, "drone", TRAFFIC, "plaintext_in"))
    given = as_value(window_told(cell.counters, "drone", TRAFFIC, "plaintext_out"))
    for name, told in (("tx", taken), ("rx", given)):
        count = told if isinstance(told, int) else None
        value = count / seconds if count is not None and seconds else None
        sheet.put("I", f"mavproxy_drone_{name}_pps", value, n=count, absent=no_counter)
    sheet.put("I", "mavproxy_drone_total_msgs_sent_count", taken, absent=no_counter)
    sheet.put("I", "mavproxy_drone_total_msgs_received_count", given, absent=no_counter)
    counts = _dig(report, "sent", "messages")
    sheet.put(
        "I",
        "mavproxy_drone_msg_type_counts",
        counts if isinstance(counts, dict) else None,
        absent=NOT_COUNTED,
    )
    sent = _dig(report, "sent", "count")
    count = sent if isinstance(sent, int) else None
    rate = count / seconds if count is not None and seconds else None
    sheet.put("I", "mavproxy_drone_stream_rate_hz", rate, n=count, absent=NOT_COUNTED)
    sheet.null_rest("I", NOT_COUNTED)
    got = as_value(window_told(cell.counters, "gcs", TRAFFIC, "plaintext_out"))
    sheet.put("J", "mavproxy_gcs_total_msgs_received_count", got, absent=no_counter)
    sheet.null_rest("J", NOT_COUNTED)
    joined = plane.down.windows.get(TRAFFIC) if plane.down else None
    no_ledger = "no ledger of both ends"
    sheet.put("K", "mavlink_out_of_order_count", joined.reordered if joined else None, absent=no_ledger)
    sheet.put("K", "mavlink_duplicate_count", plane.down.duplicates if plane.down else None, absent=no_ledger)
    latency = sheet_value(sheet, "H", "one_way_latency_mean_ms")
    sheet.put("K", "mavlink_message_latency_mean_ms", latency, absent="no valid one-way latency")
    unparsed = _dig(report, "unparsed_count")
    sheet.put(
        "K", "mavlink_decode_error_count", unparsed if isinstance(unparsed, int) else None, absent=NOT_COUNTED
    )
    sheet.null_rest("K", NOT_COUNTED)
    messages = counts if isinstance(counts, dict) else {}
    for name, message in (("fc_attitude", "ATTITUDE"), ("fc_position", "GLOBAL_POSITION_INT")):
        seen = messages.get(message)
        value = seen / seconds if isinstance(seen, int) and seconds else None
        sheet.put("L", f"{name}_update_rate_hz", value, n=seen, absent=NOT_COUNTED)
    sheet.null_rest("L", NOT_COUNTED)


def sheet_value(sheet: Sheet, letter: str, name: str) -> float | None:
    """A number that is already on the sheet."""
    value = sheet.get(letter, name)
    return float(value) if isinstance(value, int | float) else None


def fill_control(sheet: Sheet, plan_cell: Json, raw: RawRun) -> None:
    """Category M."""
    session = as_value(_dig(raw.scenario, "traffic", "session_s"))
    sheet.put("M", "session_nominal_s", session, absent="the scenario has no traffic session")
    sheet.put("M", "action_type", "run the planned cell")
    sheet.put("M", "action_reason", f"block {plan_cell.get('block')} of the plan")
    sheet.put(
        "M", "policy_name", _text(_dig(raw.scenario, "order", "method")), absent="no order in the scenario"
    )
    sheet.put("M", "policy_state", str(plan_cell["condition"]))
    sheet.put("M", "policy_position_count", int(plan_cell["position"]))
    sheet.put("M", "policy_total_cells_count", len(rows_of(raw.plan, "cells", [])))
