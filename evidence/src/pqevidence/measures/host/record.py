"""Categories N, O, Q and T, and of D what hosts did meanwhile: from the telemetry files of both.

CPU and memory are those of the traffic window (of the cell where there is none); counters of the kernel are
increases over the cell. A series that a host does not have is null with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from pqbase.documents import rows_of
from pqbase.text import utc_text_ms
from pqevidence.record.dataplane import TRAFFIC
from pqevidence.record.facts import Facts
from pqevidence.record.handshake import HANDSHAKE_WINDOW
from pqevidence.record.neighbours import foreign_use
from pqevidence.record.raw import CANARY, ROLES, Json, RawCell, RawRun
from pqevidence.record.sheet import Sheet
from pqevidence.record.stats import mean
from pqevidence.record.system import LETTER, Samples, Telemetry, sensor_reason
from pqevidence.record.waiting import BEFORE_MEASURED, share_pct, tunnel_wait_pct
from pqtunnel.quiet import STEAL_LIMIT_PCT

#: cumulative, µs
PRESSURE = ("pq_pressure", "cpu_some_us")


def fill(sheet: Sheet, facts: Facts) -> None:
    """All of it. Kernels' counters stop before a canary, whose datagrams are nobody's traffic."""
    telemetry, context = facts.telemetry, facts.context
    fill_pressure(sheet, telemetry, facts.window_ns(HANDSHAKE_WINDOW), facts.span_ns, context)
    for role in ROLES:
        fill_system(sheet, role, telemetry.get(role), facts.span_ns, context, facts.span_name)
    fill_observability(sheet, telemetry, facts.samples)
    canary = facts.window_ns(CANARY)
    before = telemetry if canary is None else {role: t.until(canary[0]) for role, t in telemetry.items()}
    fill_kernel(sheet, before, facts.cell.counters)
    fill_foreign(sheet, facts.cell)


def fill_pressure(
    sheet: Sheet,
    telemetry: Mapping[str, Telemetry],
    shakes_ns: tuple[int, int] | None,
    traffic_ns: tuple[int, int],
    raw: RawRun,
) -> None:
    """What the machines and the tunnels' threads waited: categories D (window of cold handshakes, None where
    there is none), N and O (traffic). All are growths of cumulative counters."""
    for host in ROLES:
        told = telemetry.get(host)
        silent = _why_silent(raw, host, "pressure")
        if shakes_ns is None:
            share, silent_there = None, "the cell has no window of cold handshakes"
        else:
            share, silent_there = share_pct(told, PRESSURE, shakes_ns, 1_000), silent
        sheet.put("D", f"handshake_pressure_{host}_pct", share, absent=silent_there)
        if told is None:
            continue  # the whole letter is null with its reason
        share = share_pct(told, PRESSURE, traffic_ns, 1_000)
        sheet.put(LETTER[host], "cpu_pressure_pct", share, absent=silent)
        share = tunnel_wait_pct(told, traffic_ns)
        silent = _why_silent(raw, host, "runqueue")
        sheet.put(LETTER[host], "tunnel_processor_wait_pct", share, absent=silent)


def _why_silent(raw: RawRun, host: str, name: str) -> str:
    """Why a host has no such series: its own word, or it was not asked yet."""
    sensors = rows_of(raw.hosts.get(host, {}), "sensors", [])
    mine = [sensor for sensor in sensors if sensor.get("name") == name]
    if not mine:
        return BEFORE_MEASURED
    return str(mine[0].get("reason") or "no two samples within the window")


def fill_system(
    sheet: Sheet, role: str, telemetry: Telemetry | None, span_ns: tuple[int, int], raw: RawRun, window: str
) -> None:
    """Category N (drone) or O (gcs)."""
    letter = LETTER[role]
    if telemetry is None:
        sheet.null_rest(letter, "no telemetry file of this host")
        return
    none = f"no sample within {window}"
    steal, n_steal = _system_share(telemetry, "system_steal_ms", span_ns)
    stolen = steal is not None and steal > STEAL_LIMIT_PCT
    why = f"steal {steal:.1f} % is above {STEAL_LIMIT_PCT:g} %" if stolen and steal is not None else None

    def cpu(name: str, value: float | None, n: int | None, absent: str = none) -> None:
        sheet.put(
            letter,
            name,
            value,
            n=n,
            absent=absent,
            validity="invalid" if stolen else "ok",
            reason=why,
        )

    cpu("cpu_usage_mean_pct", *_system_share(telemetry, "system_busy_ms", span_ns))
    peaks = telemetry.values("pq_cpu", "system_pct", *span_ns)
    cpu("cpu_usage_peak_pct", max(peaks, default=None), len(peaks))
    for name, source in (
        ("tunnel_cpu_mean_pct", "process_cpu_ns"),
        ("container_cpu_mean_pct", "container_cpu_ns"),
        ("sampler_cpu_mean_pct", "sampler_cpu_ns"),
    ):
        grown = telemetry.growth("pq_cpu", source, *span_ns)
        share = 100 * grown[0] / grown[1] if grown else None
        cpu(name, share, grown[2] if grown else None, f"the sampler has no {source} on this host")
    sheet.put(letter, "steal_mean_pct", steal, n=n_steal, absent="the kernel reports no steal time")
    memory = telemetry.values("pq_mem", "rss_bytes", *span_ns)
    rss = max(memory) / 1e6 if memory else None
    sheet.put(letter, "memory_rss_mb", rss, n=len(memory), absent=none)
    zones = [zone.values("pq_temp", "temperature_c", *span_ns) for _, zone in telemetry.each("pq_temp")]
    heat = max(filter(None, zones), key=lambda zone: mean(zone) or 0.0, default=[])
    sheet.put(letter, "temperature_c", mean(heat), n=len(heat), absent=sensor_reason(raw, role, "thermal"))
    for name, source in (("1m", "load1"), ("5m", "load5"), ("15m", "load15")):
        load = telemetry.last("pq_load", source)
        sheet.put(
            letter, f"load_avg_{name}_count", load, absent="the sampler has no load average on this host"
        )
    clock = telemetry.values("pq_freq", "frequency_mhz", *span_ns)
    sheet.put(
        letter, "cpu_freq_mhz", mean(clock), n=len(clock), absent="this host does not expose its frequency"
    )
    threads = telemetry.values("pq_mem", "thread_count", *span_ns)
    thread_count = int(max(threads)) if threads else None
    sheet.put(letter, "thread_count", thread_count, n=len(threads), absent=none)
    sheet.null_rest(letter, "this version's sampler does not read it")


def _system_share(
    telemetry: Telemetry, name: str, span_ns: tuple[int, int]
) -> tuple[float | None, int | None]:
    """(per cent of all CPU time, points) from cumulative times: percentages of 100 ms are coarse."""
    part = telemetry.growth("pq_cpu", name, *span_ns)
    whole = telemetry.growth("pq_cpu", "system_total_ms", *span_ns)
    if part is None or whole is None or whole[0] <= 0:
        return None, None
    return 100 * part[0] / whole[0], part[2]


def fill_observability(sheet: Sheet, telemetry: dict[str, Telemetry], accounts: dict[str, Samples]) -> None:
    """Category Q."""
    none = "no telemetry file of the drone"
    stored = sum(account.stored for account in accounts.values()) if accounts else None
    sheet.put("Q", "log_sample_count", stored, absent="no telemetry file of either host")
    ticks = telemetry["drone"].ticks_ns if "drone" in telemetry else []
    span_s = (ticks[-1] - ticks[0]) / 1e9 if len(ticks) > 1 else None
    sheet.put(
        "Q", "sampling_rate_hz", (len(ticks) - 1) / span_s if span_s else None, n=len(ticks), absent=none
    )
    sheet.put("Q", "collection_start_utc", utc_text_ms(ticks[0]) if ticks else None, absent=none)
    sheet.put("Q", "collection_end_utc", utc_text_ms(ticks[-1]) if ticks else None, absent=none)
    sheet.put("Q", "collection_duration_ms", span_s * 1e3 if span_s else None, absent=none)
    grown = {
        role: telemetry[role].increase("pq_sampler", "telegraf_dropped_count") if role in telemetry else None
        for role in ROLES
    }
    known = [count for count in grown.values() if count is not None]
    silent = ", ".join(role for role, count in grown.items() if count is None)
    dropped = sum(known) if not silent else None
    sheet.put("Q", "telegraf_dropped_count", dropped, absent=f"no count of it at: {silent}")


def fill_kernel(sheet: Sheet, telemetry: dict[str, Telemetry], counters: dict[str, Json] | None) -> None:
    """Category T."""
    for role in ROLES:
        for name in ("udp_in_datagrams", "udp_in_errors", "udp_rcvbuf_errors", "if_rx_dropped"):
            grown = telemetry[role].increase("pq_net", name) if role in telemetry else None
            sheet.put(
                "T", f"{name}_{role}_count", grown, absent="no two samples of this counter within the cell"
            )
    for name in ("queue_full", "gated"):
        value = None
        if counters is not None and all(name in counters.get(role, {}) for role in ROLES):
            value = sum(int(counters[role][name]) for role in ROLES)
        sheet.put("T", f"{name}_count", value, absent=f"both ends' {name} is not there")


def fill_foreign(sheet: Sheet, cell: RawCell) -> None:
    """What programs beside the lab used: categories D (window of cold handshakes) and T (traffic)."""
    for letter, name, window in (
        ("D", "handshake_foreign_cpu_pct", HANDSHAKE_WINDOW),
        ("T", "foreign_cpu_pct", TRAFFIC),
    ):
        use, why = foreign_use(cell.events, window)
        sheet.put(letter, name, use.foreign_pct if use else None, absent=why or "")
