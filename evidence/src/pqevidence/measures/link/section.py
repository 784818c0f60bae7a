"""What each impaired link was set to, and what probes found it to be: cell by cell, each direction."""

from __future__ import annotations

from collections.abc import Sequence

from pqbase.documents import Json, exact_or_none, number_or_none, part_of
from pqevidence.analysis.load import Cell as BundleCell
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Section, Table, label, missing, number
from pqevidence.report.source import Source, anchor, record_link
from pqevidence.scenario.conditions import impairs, is_control

NO_CONTROL = (
    "This campaign has no link-0 control (router in the path, nothing set): what the router itself adds is "
    "not known here. `--with link-0` on the same scenario measures it."
)
#: directions of the link router by the words that the other tables use
WORDS = {"up": "drone → GCS", "down": "GCS → drone"}


def links(source: Source) -> Section | None:
    """Only where a cell went through the link router."""
    routed = [cell for cell in source.bundle.cells if _settings(cell) is not None]
    if not routed:
        return None
    return Section(
        "link",
        "Link: set and achieved",
        (
            Table(
                "link-table",
                "What each direction was set to, what probes measured, and what the router did to the cell",
                (
                    Column("suite"),
                    Column("condition"),
                    Column("rep", "", True),
                    Column("direction"),
                    Column("set to"),
                    Column("probes", "n", True),
                    Column("delay, mean", "ms", True),
                    Column("delay, sd", "ms", True),
                    Column("loss", "%", True),
                    Column("TCP round trip, mean", "ms", True),
                    Column("carried", "packets", True),
                    Column("dropped", "packets", True),
                    Column("raw"),
                ),
                blocks.rows_of([_row(source, cell, way) for cell in routed for way in WORDS]),
                source.ring,
                None,
                "Probes run before the handshakes, none in a measured window. Carried and dropped: the "
                "cell's own packets, handshakes among them.",
                collapsed=len(routed) > 24,
            ),
        ),
        "The router delays and drops on purpose, from a seed. A cell whose link was not what its condition "
        "says is invalid." + control_lacks(source.bundle.conditions),
    )


def control_lacks(conditions: Sequence[Json]) -> str:
    """What to say where a condition impairs the link and none goes through the router with nothing set."""
    if any(map(is_control, conditions)) or not any(map(impairs, conditions)):
        return ""
    return f" {NO_CONTROL}"


def _settings(cell: BundleCell) -> Json | None:
    field = cell.value("T", "link_settings")
    value = None if field is None else field["value"]
    return value if isinstance(value, dict) else None


def _row(source: Source, cell: BundleCell, way: str) -> list[Cell]:
    settings = _settings(cell) or {}
    probes = cell.value("T", f"link_delay_mean_{way}_ms") or {}
    return [
        label(cell.suite_id, href=anchor(cell.cell_id)),
        label(cell.condition),
        blocks.count(source.nth(cell.repetition)),
        label(WORDS[way]),
        label(set_text(part_of(settings, way, {}))),
        blocks.count(exact_or_none(probes, "n"), reason=str(probes.get("reason") or "not in the record")),
        _field(cell, f"link_delay_mean_{way}_ms"),
        _field(cell, f"link_jitter_sd_{way}_ms"),
        _field(cell, f"link_loss_{way}_pct"),
        _field(cell, "link_rtt_tcp_mean_ms"),
        _field(cell, f"link_packets_{way}_count", whole=True),
        _field(cell, f"link_dropped_{way}_count", whole=True),
        record_link(cell.cell_id),
    ]


def _field(cell: BundleCell, name: str, *, whole: bool = False) -> Cell:
    field = cell.value("T", name)
    if field is None:
        return missing("not in the record")
    reason = str(field["reason"] or "no reason is recorded")
    value = number_or_none(field, "value")
    if whole:
        return blocks.count(None if value is None else int(value), reason=reason)
    return number(value, reason=reason)


def set_text(side: Json) -> str:
    """One direction's settings in the order in which a packet meets them; what is 0 does nothing."""
    parts = []
    if trace := part_of(side, "trace", {}):
        begin = f", from {trace['start_ms']} ms" if trace["start_ms"] else ""
        parts.append(f"trace {str(trace['sha256'])[:12]}{begin}, {trace['at_end']} at its end")
    if rate := side.get("rate_kbps"):
        parts.append(f"{rate:g} kbit/s")
    if burst := part_of(side, "burst_loss", {}):
        ways = f"in {burst['p_enter_pct']:g} %, out {burst['p_exit_pct']:g} %"
        parts.append(f"bursts losing {burst['loss_pct']:g} % ({ways})")
    if loss := side.get("loss_pct"):
        parts.append(f"loss {loss:g} %")
    delay, jitter = side.get("delay_ms") or 0, side.get("jitter_ms") or 0
    if jitter:
        parts.append(f"delay {delay:g} ± {jitter:g} ms, {side.get('distribution')}")
    elif delay:
        parts.append(f"delay {delay:g} ms")
    for key, word in (("reorder_pct", "overtaking"), ("duplicate_pct", "doubled")):
        if share := side.get(key):
            parts.append(f"{word} {share:g} %")
    return "; ".join(parts) or "nothing"
