"""A watched cell whose scores are those of a shipped model: bins as an agent writes them, verdicts by it.

Rows of features are made by the detector's own package, as in its service; the trees are walked here.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from detector_files import BIN_NS, WINDOW_NS

from pqdetect.decide import Decider, Rule
from pqdetect.features import FeatureStream
from pqdetect.feed import DELTAS, FIELDS, WindowInput
from pqevidence.measures.detector.forest import Forest, shipped

Json = dict[str, Any]
BINS = WINDOW_NS // BIN_NS
#: bytes of a datagram: of the attacker's, of the peer's, of one that is sent; of its headers on the wire
FOREIGN, OWN, SENT, HEADERS = 120, 90, 86, 42
MODELS = Path(__file__).resolve().parents[2] / "detectors" / "models"


@cache
def card() -> Json:
    """The card of the model that watches in campaigns, as `pqdetect card` prints it."""
    name = json.loads((MODELS / "default.json").read_text())["default"]
    return dict(json.loads((MODELS / name / "card.json").read_text()))


def name_model(facts: Json) -> None:
    """providers.json says that this detector is that model."""
    facts.update(model=card()["name"], sha256=card()["sha256"], card=card())


def refuse(cell: Path, count: int = 20) -> None:
    """While the canary's attack is on, the drone refuses `count` datagrams in each bin."""
    truth = [json.loads(line) for line in (cell / "canary" / "attack.ndjson").read_text().splitlines()]
    on_ns, off_ns = truth[1]["t_on_ns"], truth[1]["t_off_ns"]
    rows = [json.loads(line) for line in (cell / "bins.ndjson").read_text().splitlines()]
    place = rows[0]["fields"].index("auth_failed")
    for row in rows[1:]:
        if on_ns // BIN_NS <= row[0] <= off_ns // BIN_NS:
            row[1][place] = count
    (cell / "bins.ndjson").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def rescore(cell: Path) -> None:
    """Every bin of the cell in full, and what the model says to each window that has a line."""
    rows = _bins(cell)
    moved = _windows(rows)
    lines = [json.loads(line) for line in (cell / "detector.ndjson").read_text().splitlines()]
    header = {
        "schema": "pqtunnel/feed/v1",
        "role": "drone",
        "cell_id": cell.name,
        "bin_ns": BIN_NS,
        "fields": list(FIELDS),
        "interface_name": "eth1",
        "reason": None,
    }
    told = [header, *([number, counts] for number, counts in rows.items()), *moved.values()]
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in told)
    (cell / "bins.ndjson").write_text(text)
    forest = shipped(card()["sha256"])
    assert forest is not None
    _judge(lines, rows, moved, forest)
    (cell / "detector.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _bins(cell: Path) -> dict[int, list[int]]:
    """Bin → counts in the order of FIELDS: the peer's datagrams as they are, foreign ones refused."""
    header, *rows = [json.loads(line) for line in (cell / "bins.ndjson").read_text().splitlines()]
    refused = header["fields"].index("auth_failed")
    found = {}
    for number, counts in (row for row in rows if isinstance(row, list)):
        foreign = counts[refused]
        own, sent = 1, 7
        by_name = {
            "rx_datagrams": own + foreign,
            "rx_bytes": OWN * own + FOREIGN * foreign,
            "rx_data": own,
            "auth_failed": foreign,
            "tx_data": sent,
            "tx_bytes": SENT * sent,
            "rx_bytes_sq": OWN**2 * own + FOREIGN**2 * foreign,
        }
        found[number] = [by_name.get(name, 0) for name in FIELDS]
    return found


def _windows(rows: dict[int, list[int]]) -> dict[int, Json]:
    """What the host's counters moved by in each whole window: what the sockets saw, with its headers."""
    at = {name: place for place, name in enumerate(FIELDS)}
    found = {}
    for k in range(-(-min(rows) // BINS), (max(rows) + 1) // BINS):
        held = [rows[number] for number in range(k * BINS, (k + 1) * BINS) if number in rows]
        count, size = (sum(row[at[name]] for row in held) for name in ("rx_datagrams", "rx_bytes"))
        interface = {
            "rx_packets": count,
            "rx_bytes": size + HEADERS * count,
            "rx_dropped": 0,
            "tx_packets": 0,
            "tx_bytes": 0,
        }
        udp = {"in_errors": 0, "no_ports": 0, "rcvbuf_errors": 0}
        found[k] = {"k": k, "interface": interface, "udp": udp, "late_ns": 300_000}
    return found


def _judge(lines: list[Json], rows: dict[int, list[int]], moved: dict[int, Json], forest: Forest) -> None:
    stream = FeatureStream()
    rules = {output: Decider(Rule.of(card()["rules"][output])) for output in ("attack", "degraded")}
    empty = [0] * len(FIELDS)
    for line in lines:
        k = line["k"]
        counts = np.array([rows.get(number, empty) for number in range(k * BINS, (k + 1) * BINS)])
        told = moved[k]
        blocks = [
            told["interface" if name.startswith("if_") else "udp"].get(name.partition("_")[2], math.nan)
            for name in DELTAS
        ]
        deltas = np.array(blocks, dtype=np.float64)
        stream.push(WindowInput(k, counts.astype(np.int64), deltas))
        scores = forest.scores(stream.five_window().tolist())
        for output, score in zip(("attack", "degraded"), scores, strict=True):
            line[f"{output}_score"] = score
            line[output] = rules[output].step(score)
        seen = counts[:, FIELDS.index("rx_datagrams")].sum() + counts[:, FIELDS.index("tx_data")].sum()
        line.update(model=card()["name"], sha256=card()["sha256"], packets_seen=int(seen))
