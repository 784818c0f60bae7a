"""A run's figures as tables: Markdown, which a terminal shows as well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

NONE: Final = "–"


def markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """A table."""
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(cells) + " |" for cells in body),
    ]


def number(value: float | None, digits: int = 2) -> str:
    """A number for people; a dash where there is none."""
    return NONE if value is None else f"{value:,.{digits}f}"


PEERS: Final = {
    "signing_drone": "the tunnel, ML-KEM-768, both authenticated by ML-DSA-65",
    "signing_floor": "same primitives, bare TCP: ML-KEM-768, both sign by ML-DSA-65",
    "tls_mutual": "TLS 1.3 (OpenSSL), both authenticated by ML-DSA-65",
    "awslc_mutual": "TLS 1.3 (AWS-LC), both authenticated by ML-DSA-65",
    "tls_server": "TLS 1.3 (OpenSSL), server authenticated by ML-DSA-65",
    "awslc_server": "TLS 1.3 (AWS-LC), server authenticated by ML-DSA-65",
    "rosenpass": "Rosenpass (McEliece 460896 + Kyber-512)",
}
"""Rows of handshakes beside the suites'."""


def not_run(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and reason of everything that was to be measured beside the tunnel and was not."""
    found = result["handshakes"]
    rows = [(title, found[key]) for key, title in PEERS.items()]
    rows += [(f"bare TCP of {row['kem']} and {row['sig']}", row) for row in found["floors"]]
    rows.append(("what waking up costs", found["wake_up"]))
    told = [(name, row["missing"]) for name, row in rows if "missing" in row]
    return told + list(result["forwarding"]["missing"].items())


def _machine(result: dict[str, Any]) -> list[str]:
    machine, facts = result["machine"], result["facts"]
    before, after = machine["load_average_before"][0], machine["load_average_after"][0]
    foreign_pct = machine["foreign_cpu_pct"]
    foreign = NONE if foreign_pct is None else f"{foreign_pct:.1f} %"
    lines = [
        f"Run of {result['utc']}, mode {result['mode']}, {machine['duration_s']:.0f} s, on "
        f"{facts['cpu_count']} × {facts['cpu_model']}, Linux {facts['kernel']}. Load average {before:.2f} "
        f"before and {after:.2f} after; other processes used {foreign} of a core meanwhile."
    ]
    waking = result["handshakes"]["wake_up"]
    if "missing" not in waking:
        lines.append("")
        lines.append(
            f"Waking up costs {waking['wake_up_us']:.1f} µs here: one way takes a byte "
            f"{waking['asleep_us']:.1f} µs to one who has slept in the kernel for 0.2 ms, "
            f"{waking['awake_us']:.1f} µs to one who asks all the time (medians of {waking['n']})."
        )
    absent = not_run(result)
    if absent:
        lines.append("")
        lines.append(f"**Did not run: {'; '.join(f'{name} ({why})' for name, why in absent)}.**")
    if machine["is_busy"]:
        lines.append("")
        lines.append(
            f"**The machine was busy: {'; '.join(machine['reasons'])}.** "
            "These figures are marked and decide nothing."
        )
    return lines


def _targets(result: dict[str, Any]) -> list[str]:
    mark = " (busy)" if result["machine"]["is_busy"] else ""
    met = {True: "yes" + mark, False: "no" + mark, None: "not known"}
    return markdown(
        ("target", "must be", "measured", "met"),
        (
            (
                row["name"],
                row["target"],
                row["measured"] or NONE,
                met[row["met"]] + (f": {row['why']}" if row["why"] else ""),
            )
            for row in result["targets"]
        ),
    )


def _forwarding(result: dict[str, Any]) -> list[str]:
    body = []
    for load, by_name in result["forwarding"]["loads"].items():
        for name, row in by_name.items():
            if "missing" in row:
                body.append((load, name, f"missing: {row['missing']}", *[NONE] * 6))
                continue
            body.append(
                (
                    load,
                    name,
                    number(row["received_hz"], 0),
                    number(row["cpu_us_per_packet"]),
                    number(row["cpu_ratio_to_bare"]),
                    number(row["machine_cpu_us_per_packet"]),
                    number(row["p50_us"], 1),
                    number(row["p99_us"], 1),
                    f"{row['lost_count']} of {row['sent_count']}",
                )
            )
    head = (
        "load",
        "forwarder",
        "received/s",
        "CPU, µs",
        "× bare",
        "machine, µs",
        "p50, µs",
        "p99, µs",
        "lost",
    )
    return markdown(head, body)


def _handshakes(result: dict[str, Any]) -> list[str]:
    found = result["handshakes"]
    named = [(title, found[key]) for key, title in PEERS.items()]
    named += [(row["suite_id"], row) for row in found["suites"]]
    head = (
        "handshake",
        "n",
        "median, ms",
        "p95, ms",
        "crypto, ms",
        "wall ÷ crypto",
        "floor, ms",
        "wall ÷ floor",
    )
    return markdown(head, (_handshake(title, row) for title, row in named))


def _handshake(title: str, row: dict[str, Any]) -> list[str]:
    cells = [title, str(row.get("n", NONE))]
    if "missing" in row:
        return [*cells, f"missing: {row['missing']}", *[NONE] * 5]
    return [
        *cells,
        number(row["wall_median_ms"]),
        number(row["wall_p95_ms"]),
        number(row.get("crypto_median_ms")),
        number(row.get("ratio_median"), 3),
        number(row.get("floor_median_ms")),
        number(row.get("floor_ratio"), 3),
    ]


def render(result: dict[str, Any]) -> str:
    """The whole run as Markdown, from its JSON alone."""
    sections = [
        _machine(result),
        ["### Targets", "", *_targets(result)],
        ["### Forwarding beside peers", "", *_forwarding(result)],
        ["### Handshakes beside peers", "", *_handshakes(result)],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"
