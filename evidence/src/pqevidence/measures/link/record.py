"""What the link router was set to, what probes found, what it did to the cell's packets (category T)."""

from __future__ import annotations

from pqevidence.record.facts import Facts
from pqevidence.record.raw import Json, RawCell
from pqevidence.record.sheet import Sheet
from pqevidence.scenario.conditions import routed
from pqlink.achieved import check_tcp, check_udp
from pqlink.errors import SettingsError
from pqlink.settings import Side

DIRECTIONS = ("up", "down")
#: lost_trace: routers before traces did not count it
_LOST = ("lost", "lost_burst", "lost_queue", "lost_trace")
NOT_ROUTED = "the cell went the direct path"
NOT_PROBED = "the condition asks for no probe"


def sides_of(condition: Json) -> dict[str, Side]:
    """Both directions as the condition sets them. Raises SettingsError."""
    block = condition.get("link")
    block = block if isinstance(block, dict) else {}
    return {name: Side.parse(block.get(name)) for name in DIRECTIONS}


def link_problems(cell: RawCell, condition: Json) -> list[str]:
    """Why the cell cannot speak for the link that its condition names; [] when it can, or went direct."""
    if not routed(condition):
        return []
    link = cell.link
    if link is None:
        return ["there is no link.json: nothing shows that the router was in the path"]
    try:
        return _against(link, sides_of(condition), condition)
    except (KeyError, TypeError, AttributeError, ValueError, SettingsError) as error:
        return [f"link.json cannot be read as what it should be: {error!r}"]


def _against(link: Json, sides: dict[str, Side], condition: Json) -> list[str]:
    found = [
        f"{name}: link.json says {link['set'][name]}, the condition {side.as_dict()}"
        for name, side in sides.items()
        if Side.parse(link["set"][name]) != side
    ]
    if link["lapsed"] is not None:
        found.append(f"the hold on the router was lost within the cell: {link['lapsed']}")
    found += _router(link["router"])
    block = condition.get("link")
    wanted = block.get("probe") if isinstance(block, dict) else None
    probes = link["probes"]
    if (wanted is None) != (probes is None):
        return [*found, "probes were asked for and are not there, or the other way round"]
    if probes is None:
        return found
    udp, tcp = probes["udp"], probes["tcp"]
    found += _arithmetic(udp)
    for name, side in sides.items():
        found += check_udp(name, side, udp[name], int(udp["size_bytes"]))
    if "reason" not in tcp:
        found += [*_consistent("tcp", tcp), *check_tcp(sides["up"], sides["down"], tcp)]
    return found


def _router(router: Json | None) -> list[str]:
    if router is None:
        return ["the router's own counts are not there: the cell did not end in order"]
    found = []
    for name in DIRECTIONS:
        counts = router[name]
        accounted = counts["delivered"] + sum(counts.get(key, 0) for key in _LOST)
        if counts["offered"] != accounted:
            found.append(f"router {name}: {counts['offered']} packets came, {accounted} are accounted for")
    return found


def _arithmetic(udp: Json) -> list[str]:
    """Sent → arrived → came back: one count each, told twice."""
    found = [text for name in DIRECTIONS for text in _consistent(f"udp {name}", udp[name])]
    chain = (udp["sent"], udp["up"]["received"], udp["down"]["received"])
    if chain != (udp["up"]["n"], udp["down"]["n"], udp["returned"]):
        found.append(f"udp: counts of the two directions do not follow from one another: {chain}")
    return found


def _consistent(name: str, figures: Json) -> list[str]:
    found = []
    n, received, lost = figures["n"], figures["received"], figures["lost"]
    if min(n, received, lost) < 0 or n != received + lost:
        found.append(f"{name}: {n} sent, {received} received, {lost} lost")
    kind = "rtt" if "rtt_mean_ms" in figures else "delay"
    low, mean, high = (figures[f"{kind}_{key}_ms"] for key in ("min", "mean", "max"))
    if received and not 0 <= low <= mean <= high:
        found.append(f"{name}: least {low}, mean {mean}, greatest {high} ms")
    return found


def problems(facts: Facts) -> list[str]:
    """`link_problems` of the cell that a record is made of."""
    return link_problems(facts.cell, facts.condition)


def fill(sheet: Sheet, facts: Facts) -> None:
    """The T fields of the link; null with a reason where the path was direct or nothing was probed."""
    cell, condition = facts.cell, facts.condition
    link = cell.link if routed(condition) else None
    absent = "link.json is not there" if routed(condition) else NOT_ROUTED
    probes = (link or {}).get("probes")
    if link is not None and probes is None:
        absent = NOT_PROBED
    udp: Json = (probes or {}).get("udp") or {}
    tcp: Json = (probes or {}).get("tcp") or {}
    for name in DIRECTIONS:
        figures = udp.get(name) or {}
        n = figures.get("n")
        sheet.put("T", f"link_delay_mean_{name}_ms", figures.get("delay_mean_ms"), n=n, absent=absent)
        sheet.put("T", f"link_jitter_sd_{name}_ms", figures.get("delay_sd_ms"), n=n, absent=absent)
        sheet.put("T", f"link_loss_{name}_pct", figures.get("loss_pct"), n=n, absent=absent)
    absent_tcp = str(tcp.get("reason") or absent)
    sheet.put("T", "link_rtt_tcp_mean_ms", tcp.get("rtt_mean_ms"), n=tcp.get("n"), absent=absent_tcp)
    sheet.put("T", "link_round_trip_loss_tcp_pct", tcp.get("loss_pct"), n=tcp.get("n"), absent=absent_tcp)
    settings: dict[str, object] | None = None if link is None else link.get("set")
    without = NOT_ROUTED if not routed(condition) else "link.json is not there"
    sheet.put("T", "link_settings", settings, absent=without)
    router: Json = (link or {}).get("router") or {}
    for name in DIRECTIONS:
        counts = router.get(name)
        lost = None if counts is None else sum(int(counts.get(key, 0)) for key in _LOST)
        late = None
        if counts is not None and counts["late_count"]:
            late = counts["late_sum_ns"] / counts["late_count"] / 1e6
        offered = None if counts is None else int(counts["offered"])
        sheet.put("T", f"link_packets_{name}_count", offered, absent=without)
        sheet.put("T", f"link_dropped_{name}_count", lost, absent=without)
        sheet.put("T", f"link_late_mean_{name}_ms", late, n=offered, absent=without)
