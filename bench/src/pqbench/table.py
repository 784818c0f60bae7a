"""A run's figures as tables: Markdown, which a terminal shows as well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pqbase.documents import Json, number_of, number_or_none, numbers_of, part_of, rows_of, texts_of
from pqbench import targets

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
    "link_tls": "pqlink, ML-KEM-768, GCS by ML-DSA-65, drone by PSK",
    "tls_mutual": "TLS 1.3 (OpenSSL), both authenticated by ML-DSA-65",
    "awslc_mutual": "TLS 1.3 (AWS-LC), both authenticated by ML-DSA-65",
    "tls_server": "TLS 1.3 (OpenSSL), server authenticated by ML-DSA-65",
    "awslc_server": "TLS 1.3 (AWS-LC), server authenticated by ML-DSA-65",
    "rosenpass": "Rosenpass (McEliece 460896 + Kyber-512)",
}
"""Rows of handshakes beside the suites'."""


def not_run(result: Json) -> list[tuple[str, str]]:
    """Name and reason of everything that was to be measured beside the tunnel and was not."""
    found = part_of(result, "handshakes")
    rows = [(title, part_of(found, key)) for key, title in PEERS.items()]
    rows += [(f"bare TCP of {row['kem']} and {row['sig']}", row) for row in rows_of(found, "floors")]
    rows += [(f"pqlink: {row['suite_id']}", row) for row in rows_of(found, "link")]
    rows.append(("pqlink's handshakes a second", part_of(found, "link_rate")))
    rows.append(("what waking up costs", part_of(found, "wake_up")))
    told = [(name, str(row["missing"])) for name, row in rows if "missing" in row]
    absent = part_of(part_of(result, "forwarding"), "missing")
    return told + [(name, str(why)) for name, why in absent.items()]


def _load(machine: Json, when: str) -> float:
    """The load average of the last minute, before or after."""
    return numbers_of(machine, f"load_average_{when}")[0]


def _machine(result: Json) -> list[str]:
    machine, facts = part_of(result, "machine"), part_of(result, "facts")
    before, after = (_load(machine, when) for when in ("before", "after"))
    foreign_pct = number_or_none(machine, "foreign_cpu_pct")
    foreign = NONE if foreign_pct is None else f"{foreign_pct:.1f} %"
    lines = [
        f"Run of {result['utc']}, mode {result['mode']}, {number_of(machine, 'duration_s'):.0f} s, on "
        f"{facts['cpu_count']} × {facts['cpu_model']}, Linux {facts['kernel']}. Load average {before:.2f} "
        f"before and {after:.2f} after; other processes used {foreign} of a core meanwhile."
    ]
    waking = part_of(part_of(result, "handshakes"), "wake_up")
    if "missing" not in waking:
        lines.append("")
        lines.append(
            f"Waking up costs {number_of(waking, 'wake_up_us'):.1f} µs here: one way takes a byte "
            f"{number_of(waking, 'asleep_us'):.1f} µs to one who has slept in the kernel for 0.2 ms, "
            f"{number_of(waking, 'awake_us'):.1f} µs to one who asks all the time (medians of {waking['n']})."
        )
    absent = not_run(result)
    if absent:
        lines.append("")
        lines.append(f"**Did not run: {'; '.join(f'{name} ({why})' for name, why in absent)}.**")
    if machine["is_busy"]:
        lines.append("")
        lines.append(
            f"**The machine was busy: {'; '.join(texts_of(machine, 'reasons'))}.** "
            "These figures are marked and decide nothing."
        )
    return lines


def _targets(result: Json) -> list[str]:
    """Judged anew: a row that the run did not know yet stands beside the others."""
    mark = " (busy)" if part_of(result, "machine")["is_busy"] else ""
    return markdown(
        ("target", "must be", "measured", "met"),
        (
            (
                str(row["name"]),
                str(row["target"]),
                str(row["measured"] or NONE),
                _met(row, mark) + (f": {row['why']}" if row["why"] else ""),
            )
            for row in targets.rows(result)
        ),
    )


def _met(row: Json, mark: str) -> str:
    return "not known" if row["met"] is None else f"{'yes' if row['met'] else 'no'}{mark}"


def _forwarding(result: Json) -> list[str]:
    body = []
    for load, by_name in targets.loads_of(result).items():
        for name, row in by_name.items():
            if "missing" in row:
                body.append((load, name, f"missing: {row['missing']}", *[NONE] * 6))
                continue
            body.append(
                (
                    load,
                    name,
                    number(number_or_none(row, "received_hz"), 0),
                    number(number_or_none(row, "cpu_us_per_packet")),
                    number(number_or_none(row, "cpu_ratio_to_bare")),
                    number(number_or_none(row, "machine_cpu_us_per_packet")),
                    number(number_or_none(row, "p50_us"), 1),
                    number(number_or_none(row, "p99_us"), 1),
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


def _handshakes(result: Json) -> list[str]:
    found = part_of(result, "handshakes")
    named = [(title, part_of(found, key)) for key, title in PEERS.items()]
    for kind, prefix in (("suites", ""), ("link", "pqlink: ")):
        named += [(f"{prefix}{row['suite_id']}", row) for row in rows_of(found, kind)]
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


def _handshake(title: str, row: Json) -> list[str]:
    cells = [title, str(row.get("n", NONE))]
    if "missing" in row:
        return [*cells, f"missing: {row['missing']}", *[NONE] * 5]
    return [
        *cells,
        number(number_or_none(row, "wall_median_ms")),
        number(number_or_none(row, "wall_p95_ms")),
        number(number_or_none(row, "crypto_median_ms")),
        number(number_or_none(row, "ratio_median"), 3),
        number(number_or_none(row, "floor_median_ms")),
        number(number_or_none(row, "floor_ratio"), 3),
    ]


def render(result: Json) -> str:
    """The whole run as Markdown, from its JSON alone."""
    sections = [
        _machine(result),
        ["### Targets", "", *_targets(result)],
        ["### Forwarding beside peers", "", *_forwarding(result)],
        ["### Handshakes beside peers", "", *_handshakes(result)],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"
