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
    return [*markdown(head, body), *_absent(result["forwarding"]["missing"])]


def _absent(missing: dict[str, str]) -> list[str]:
    return [] if not missing else ["", *(f"Missing: **{name}**: {why}" for name, why in missing.items())]


def _handshakes(result: dict[str, Any]) -> list[str]:
    found = result["handshakes"]
    body = []
    for title, key in (
        ("the tunnel, ML-KEM-768, both authenticated by ML-DSA-65", "signing_drone"),
        ("TLS 1.3, both authenticated by ML-DSA-65", "tls_mutual"),
        ("TLS 1.3, server authenticated by ML-DSA-65", "tls_server"),
        ("Rosenpass (McEliece 460896 + Kyber-512)", "rosenpass"),
    ):
        row = found[key]
        ratio = f"missing: {row['missing']}" if "missing" in row else number(row.get("ratio_median"), 3)
        body.append(
            (
                title,
                str(row.get("n", NONE)),
                number(row.get("wall_median_ms")),
                number(row.get("wall_p95_ms")),
                number(row.get("crypto_median_ms")),
                ratio,
            )
        )
    for row in found["suites"]:
        if "missing" in row:
            body.append(
                (row["suite_id"], str(row.get("n", NONE)), f"missing: {row['missing']}", NONE, NONE, NONE)
            )
            continue
        body.append(
            (
                row["suite_id"],
                str(row["n"]),
                number(row["wall_median_ms"]),
                number(row["wall_p95_ms"]),
                number(row["crypto_median_ms"]),
                number(row["ratio_median"], 3),
            )
        )
    return markdown(("handshake", "n", "median, ms", "p95, ms", "crypto, ms", "wall ÷ crypto"), body)


def render(result: dict[str, Any]) -> str:
    """The whole run as Markdown, from its JSON alone."""
    sections = [
        _machine(result),
        ["### Targets", "", *_targets(result)],
        ["### Forwarding beside peers", "", *_forwarding(result)],
        ["### Handshakes beside peers", "", *_handshakes(result)],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"
