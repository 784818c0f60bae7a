"""The fast sampler as a reader of the resident one: a child, watched, restarted, read without waiting.

Every line of the child is a mean of a tenth of a second. What arrived since the last tick becomes one
`pq_power`, weighted by the samples behind it; a tick without one is a gap with its reason when the child says
so, has ended, or has been silent for half a second.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pqbase.documents import Json, number_of, part_of, whole_of
from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.line import Sample
from pqtelemetry.readers.base import Instant

RESTART_AFTER_S: Final = (1.0, 2.0, 5.0, 15.0, 30.0)
SILENT_NS: Final = 500_000_000
STEADY_NS: Final = 60_000_000_000
"""A child that ran this long starts again at the first pause."""
UNREAL: Final = ("model", "stub-bus", "synthetic")


def command_line(sensor: str, settings: Path | None, raw: Path) -> list[str]:
    """How the fast sampler is started."""
    given = [] if settings is None else ["--settings", str(settings)]
    return [
        sys.executable,
        "-m",
        "pqtelemetry",
        "power",
        "--sensor",
        sensor,
        *given,
        "--out",
        str(raw),
        "--exit-with-parent",
    ]


class FastPower:
    """`pq_power` of the child that `command` starts. `close` ends it."""

    name = "power"
    period_s = 0.0

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._child: subprocess.Popen[bytes] | None = None
        self._start_at_ns = self._started_ns = self._heard_ns = 0
        self._tags: tuple[tuple[str, str], ...] = ()
        self._rest = b""
        self._complaint = b""
        self._reason: str | None = None
        self._failures = 0
        self.restarts = 0

    def read(self, now: Instant) -> Sequence[Sample]:
        """Mean of all lines since the last call; none when none is due yet. Raises SensorUnavailable."""
        if self._child is None:
            if now.monotonic_ns < self._start_at_ns:
                raise SensorUnavailable(self._reason or "the fast power sampler waits to be started again")
            self._start(now.monotonic_ns)
            raise SensorUnavailable(self._reason or "the fast power sampler is in its preflight")
        samples = self._drain(now.monotonic_ns)
        code = self._child.poll()
        if code is not None:
            samples = samples or self._drain(now.monotonic_ns)
            self._ended(code, now.monotonic_ns)
            raise SensorUnavailable(self._reason or "", samples)
        if self._reason is not None:
            raise SensorUnavailable(self._reason, samples)
        if not self._tags:
            raise SensorUnavailable("the fast power sampler is in its preflight")
        if now.monotonic_ns - self._heard_ns > SILENT_NS:
            raise SensorUnavailable("the fast power sampler is silent")
        return samples

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is None:
            return
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(timeout=2.0)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                stream.close()

    # ------------------------------------------------------------------ the child

    def _start(self, now_ns: int) -> None:
        self._rest = self._complaint = b""
        self._tags = ()
        self._started_ns = self._heard_ns = now_ns
        try:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            self._pause(f"the fast power sampler cannot be started: {error.strerror}", now_ns)
            return
        for stream in (self._child.stdout, self._child.stderr):
            assert stream is not None
            if sys.platform == "win32":
                raise OSError("readers.power starts no fast sampler here")
            os.set_blocking(stream.fileno(), False)

    def _ended(self, code: int, now_ns: int) -> None:
        complaint = self._complaint.decode(errors="replace").strip()
        self.close()
        # The first line is the error; the hint below it is for a person at a terminal.
        said = complaint.splitlines()[0].removeprefix("pqtelemetry: ") if complaint else "no message"
        if complaint.startswith("Traceback"):
            said = complaint.splitlines()[-1]
        if now_ns - self._started_ns > STEADY_NS:
            self._failures = 0
        self._pause(f"the fast power sampler ended with code {code}: {said}", now_ns)

    def _pause(self, reason: str, now_ns: int) -> None:
        self._reason = reason
        self._failures += 1
        self.restarts += 1
        pause_s = RESTART_AFTER_S[min(self._failures, len(RESTART_AFTER_S)) - 1]
        self._start_at_ns = now_ns + int(pause_s * 1e9)

    # ------------------------------------------------------------------ its lines

    def _drain(self, now_ns: int) -> list[Sample]:
        assert self._child is not None and self._child.stdout is not None and self._child.stderr is not None
        self._complaint = (self._complaint + _available(self._child.stderr.fileno()))[-4096:]
        data = self._rest + _available(self._child.stdout.fileno())
        *lines, self._rest = data.split(b"\n")
        weighted = {"voltage_v": 0.0, "current_a": 0.0, "power_w": 0.0}
        count = clipped = 0
        for line in lines:
            row: Json = json.loads(line)
            self._heard_ns = now_ns
            if "ready" in row:
                self._tags = tags_of(part_of(row, "ready"))
                self._reason = None
            elif "n" in row:
                self._reason = None if row.get("reason") is None else str(row["reason"])
                n = whole_of(row, "n")
                count += n
                clipped += whole_of(row, "clipped", 0)
                if n:
                    for name in weighted:
                        weighted[name] += number_of(row, name) * n
        if count == 0:
            return []
        means = {name: total / count for name, total in weighted.items()}
        return [Sample("pq_power", {**means, "n_count": count, "clipped_count": clipped}, self._tags)]


def tags_of(header: Json) -> tuple[tuple[str, str], ...]:
    """Tags of every point: the sensor, its class, and `synthetic=true` where no board stands behind it."""
    tags = (("sensor", str(header["sensor"])), ("sensor_class", str(header["sensor_class"])))
    return (*tags, ("synthetic", "true")) if header["sensor_class"] in UNREAL else tags


def _available(descriptor: int) -> bytes:
    """What a pipe holds now; empty at its end or when there is nothing."""
    data = b""
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(descriptor, 65536):
            data += piece
    return data
