"""The fast power sampler as a process of its own beside the energy mode; it lives and ends with it."""

from __future__ import annotations

import json
import math
import queue
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pqbase.documents import Json
from pqtunnel.bench.rawfiles import BenchError

RAW: Final = "power.bin"
_READY_S: Final = 20.0
_END_S: Final = 10.0
_RATE_HZ: Final = 1000.0
"""The sampler's own where its settings name none."""
_SAMPLE_BYTES: Final = 24
_LEAST_BOUND_BYTES: Final = 1 << 20
_SPARE, _SPARE_S = 4.0, 3600.0
"""How much longer than planned a run may take and keep its samples: an operation slower than a block, and
making batches ready, are in no plan. Only what is sampled is written."""


def settings(sensor: str | None, source: Path | None, root: Path) -> Path:
    """Write the sampler's settings into `root` and return their file. A sensor has to be asked for by name.

    Raises BenchError without a name, for settings that name another sensor, or that cannot be read.
    """
    if sensor is None:
        raise BenchError(
            "the energy mode needs a power sensor, asked for by its name",
            hint="--power ina219 on a board that has one; without a sensor: --mode performance",
        )
    document: Json = {}
    try:
        if source is not None:
            document = json.loads(source.read_text(encoding="utf-8"))
            if document.get("sensor", sensor) != sensor:
                raise BenchError(f"{source.name} is for {document['sensor']!r}, --power says {sensor!r}")
            if document.get("calibration"):
                data = (source.parent / str(document["calibration"])).read_bytes()
                (root / "calibration.json").write_bytes(data)
                document["calibration"] = "calibration.json"
        path = root / "power-settings.json"
        path.write_text(json.dumps({**document, "sensor": sensor}, indent=1) + "\n", encoding="utf-8")
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise BenchError(
            f"the power settings cannot be used: {error}", hint="docs/POWER.md shows the file"
        ) from error
    return path


def bound_bytes(path: Path, root: Path, plan_s: float) -> int:
    """Bound of the sampler's files that keeps every sample of a plan of this length, and spare.

    Raises BenchError where the disk of `root` has no room for the plan's samples.
    """
    rate_hz = float(json.loads(path.read_text(encoding="utf-8")).get("rate_hz", _RATE_HZ))
    free_bytes = shutil.disk_usage(root).free
    need_bytes = _kept(rate_hz, plan_s)
    if need_bytes > free_bytes:
        raise BenchError(
            f"the plan takes about {plan_s / 60:.0f} min, {need_bytes / 1e6:.0f} MB of samples at "
            f"{rate_hz:g} Hz, and {free_bytes / 1e6:.0f} MB are free in {root}",
            hint="free some space, give another --out, or plan less: --only, --blocks, --block-s",
        )
    return min(_kept(rate_hz, _SPARE * plan_s + _SPARE_S), max(need_bytes, free_bytes * 9 // 10))


def _kept(rate_hz: float, seconds: float) -> int:
    # of the sampler's eight segments seven are sure to be there
    return max(_LEAST_BOUND_BYTES, math.ceil(rate_hz * seconds * _SAMPLE_BYTES * 8 / 7))


class PowerLog:
    """`with PowerLog(settings, root, max_bytes) as log:` samples into root/power.bin until the block ends.

    header: the raw file's header. Raises BenchError where the sensor is refused or not there.
    """

    def __init__(self, path: Path, root: Path, max_bytes: int, cpu: int | None = None) -> None:
        """`max_bytes`: bound of the samples' files together; the oldest are dropped beyond it.

        `cpu`: the core the sampler stays on, which should not be the one of the work.
        """
        self._command = [
            sys.executable,
            "-m",
            "pqtelemetry",
            "power",
            "--settings",
            str(path),
            "--out",
            str(root / RAW),
            "--max-bytes",
            str(max_bytes),
            "--exit-with-parent",
            *([] if cpu is None else ["--cpu", str(cpu)]),
        ]
        self.header: Json = {}
        self.accounting: Json | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._first: queue.Queue[Json] = queue.Queue(1)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            told = self._first.get(timeout=_READY_S)
        except queue.Empty:
            told = {}
        if not told:
            raise BenchError(
                f"no power sensor: {self._ended()}", hint="python3 -m pqtelemetry facts names what is there"
            )
        self.header = told
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended()

    @property
    def alive(self) -> bool:
        """Is it still sampling? Its end is no error of the run: the blocks after it get no energy."""
        return self._process.poll() is None

    def _read(self) -> None:
        assert self._process.stdout is not None
        told = False
        for line in self._process.stdout:
            row = json.loads(line)
            if "ready" in row and not told:
                told = True
                self._first.put(row["ready"])
            elif "accounting" in row:
                self.accounting = row["accounting"]
        if not told:
            self._first.put({})

    def _ended(self) -> str:
        """Ask it to end, wait, and return what it complained of."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_END_S)
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            return " ".join(stderr.read().split()) or "the sampler said nothing"
