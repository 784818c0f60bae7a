"""How a station takes a fleet that dials at once: at the start, and after a kill of the station.

    python tunnel/link/bench/storm.py PQLINK PQFARM DRONES SUITE [--spread-ms 1000] [--limit-s 120]

PQFARM is `examples/fleet` of the crate: all drones in one process, on the processors that the station has too
(docs/FLEET.md). They dial at seeded moments within the spread, exchange 30 datagrams each, and do so again
when the station was killed and started. Prints JSON: ms until 50, 95 and 100 % were back (null where they
were not within the limit), dials and handshakes begun a drone, datagrams lost, the station's own counters and
its peak of resident memory. Judges nothing. It takes the ports 46000, 46011, 46012, 47500 and those from
20000 on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

EXCHANGES = 30
AWAIT_MS = 30_000
SHOWN = ("hs_started", "hs_begun", "hs_completed", "hs_deferred", "hs_abandoned", "hs_timeout", "queue_most")


class Farm:
    """The drones' process: one order at a time; its rows come at the end."""

    def __init__(self, program: str, folder: Path, drones: int, suite: str, seed: int) -> None:
        words = [program, folder, drones, suite, "127.0.0.1", "127.0.0.1", seed]
        self._process = subprocess.Popen(
            list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.rows: list[list[str]] = []
        self._until("ready")

    def _until(self, word: str) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == word:
                return
            self.rows.append(line.strip().split(","))
        raise SystemExit(f"the farm ended before it said {word}: {self.rows[-3:]}")

    def order(self, *words: object) -> None:
        """Give an order and wait until it is done; raises SystemExit where the farm dies of it."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        self._until("done")

    def end(self) -> None:
        """Let it tell its rows and go."""
        self.order("end")
        self._process.wait(30)


class Station:
    """`pqlink up` of the ground station whose files the farm has made."""

    def __init__(self, program: str, config: Path) -> None:
        self._program, self._config = program, config
        self._log = config.with_name("gcs.log").open("ab")
        self._process = subprocess.Popen([program, "up", str(config)], stderr=self._log)

    def told(self) -> dict[str, Any]:
        """Its status, and its peak of resident memory in MiB."""
        asked = subprocess.run(
            [self._program, "status", str(self._config), "--json"], capture_output=True, check=True
        )
        status: dict[str, Any] = json.loads(asked.stdout)
        lines = Path(f"/proc/{self._process.pid}/status").read_text("ascii").splitlines()
        peak = next(line for line in lines if line.startswith("VmHWM"))
        return {**status, "peak_mib": round(int(peak.split()[1]) / 1024, 1)}

    def kill(self) -> None:
        """As a power cut."""
        self._process.kill()
        self._process.wait()
        self._log.close()


def figures(farm: Farm, stage: str, begun_ns: int, drones: int, told: dict[str, Any]) -> dict[str, Any]:
    """One stage, from the farm's rows and the station's counters."""
    rows = [row for row in farm.rows if len(row) > 1 and row[1] == stage]
    back_ns = sorted(int(row[3]) for row in rows if row[0] == "back" and row[3])
    outcomes = Counter(row[-1] for row in rows if row[0] == "attempt")
    probes = [row for row in rows if row[0] == "probe"]

    def at(share_pct: int) -> float | None:
        place = max(1, -(-drones * share_pct // 100))
        return round((back_ns[place - 1] - begun_ns) / 1e6, 1) if place <= len(back_ns) else None

    begun = int(told.get("hs_begun", told["hs_started"]))
    return {
        **{f"t{share}_ms": at(share) for share in (50, 95, 100)},
        "back": len(back_ns),
        "dials_a_drone": round(outcomes.total() / drones, 3),
        "begun_a_drone": round(begun / drones, 3),
        "outcomes": dict(outcomes),
        "lost": sum(1 for row in probes if not row[-1]),
        "probes": len(probes),
        "peak_mib": told["peak_mib"],
        "station": {name: told[name] for name in SHOWN if name in told},
    }


def main() -> None:
    """Both storms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("pqlink")
    parser.add_argument("pqfarm")
    parser.add_argument("drones", type=int)
    parser.add_argument("suite")
    parser.add_argument("--spread-ms", type=int, default=1000)
    parser.add_argument("--limit-s", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    limit_ms = asked.limit_s * 1000
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        farm = Farm(asked.pqfarm, folder, asked.drones, asked.suite, asked.seed)
        told = {}
        for stage in ("join", "restart"):
            station = Station(asked.pqlink, folder / "gcs.toml")
            farm.order("await", AWAIT_MS)
            if stage == "join":
                farm.order("join", asked.spread_ms * 1000, limit_ms)
            else:
                farm.order("stage", stage)
                farm.order("mark")
                farm.order("back", limit_ms)
            farm.order("exchange", stage, EXCHANGES)
            told[stage] = station.told()
            station.kill()
            time.sleep(1)
        farm.end()
        arrivals = next(int(row[1]) for row in farm.rows if row[0] == "arrivals")
        begun = {"join": arrivals}
        begun |= {"restart": [int(row[1]) for row in farm.rows if row[0] == "listening"][1]}
        stages = {stage: figures(farm, stage, begun[stage], asked.drones, told[stage]) for stage in told}
    print(
        json.dumps(
            {
                "drones": asked.drones,
                "suite": asked.suite,
                "spread_ms": asked.spread_ms,
                "load_average": round(os.getloadavg()[0], 1),
                **stages,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
