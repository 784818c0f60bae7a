"""The resident telemetry child: started once, restarted when it dies, its lines served by cell.

The sampler is another distribution (`pqtelemetry`), reached as a process and a file. Where it is not
installed the telemetry stream is empty and says why.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pqtunnel.config import FAST_POWER, EndpointConfig
from pqtunnel.errors import TunnelError

RESTART_AFTER_S: Final = (1.0, 2.0, 5.0, 15.0, 30.0)
FACTS_TIMEOUT_S: Final = 60.0
"""A slow processor that loads the endpoint's libraries meanwhile needs twenty seconds for it; a fast power
sensor's verdict is waited for, 8 s at most."""
SLICE_TIMEOUT_S: Final = 60.0
_BLOCK_BYTES: Final = 1 << 20


class TelemetryError(TunnelError):
    """The sampler is not there."""

    default_code = "no_sampler"
    default_hint = "docker logs of the endpoint says why"


class Telemetry:
    """Supervises `python -m pqtelemetry sample` and reads what it wrote."""

    def __init__(self, config: EndpointConfig, counters: Path, note: Callable[[str], None]) -> None:
        self._config = config
        self._counters = counters
        self._note = note
        self._out = config.state_dir / "telemetry.lp"
        self._power = config.state_dir / "power.bin"
        self._child: subprocess.Popen[bytes] | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self.restarts = 0
        self.reason: str | None = "the sampler has not been started"

    def open(self) -> None:
        """Start the child and the thread that watches it."""
        if self._config.telemetry_rate_hz == 0:
            self.reason = "PQ_TELEMETRY_RATE_HZ is 0"
            return
        for stale in (self._out, self._out.with_name(self._out.name + ".1")):
            stale.unlink(missing_ok=True)
        for stale in self._power.parent.glob(self._power.name + "*"):
            stale.unlink(missing_ok=True)
        self._thread = threading.Thread(target=self._watch, name="telemetry-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the child."""
        self._closing.set()
        child = self._child
        if child is not None and child.poll() is None:
            child.terminate()
            self.go_on()  # a stalled one would not hear it
            try:
                child.wait(timeout=2.0)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if self._thread is not None:
            self._thread.join(timeout=3.0)

    def stall(self) -> None:
        """Stop the child where it is, as a sensor that hangs. Raises TelemetryError when there is none."""
        if not hasattr(signal, "SIGSTOP"):
            raise TelemetryError("this platform cannot stop a process", hint="run the event on Linux")
        child = self._child
        if child is None or child.poll() is not None:
            raise TelemetryError(f"no sampler runs: {self.reason}")
        child.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End a stall; a child that died meanwhile has been replaced by one that runs."""
        child = self._child
        if child is not None and child.poll() is None:
            child.send_signal(signal.SIGCONT)

    def command(self) -> list[str]:
        """The child's command line."""
        config = self._config
        telegraf = f"{config.telegraf[0]}:{config.telegraf[1]}" if config.telegraf else "none"
        return [
            sys.executable, "-m", "pqtelemetry", "sample", "--role", config.role, "--ring", config.ring,
            "--rate-hz", str(config.telemetry_rate_hz), "--pid", str(os.getpid()),
            "--counters", str(self._counters), "--out", str(self._out), "--telegraf", telegraf,
            *self._power_options(), "--exit-with-parent",
        ]  # fmt: skip

    def _power_options(self) -> list[str]:
        config = self._config
        options = ["--power", config.power, "--power-raw", str(self._power)]
        if config.power_settings is not None:
            options += ["--power-settings", str(config.power_settings)]
        return options

    @property
    def samples_power(self) -> bool:
        """Is there a raw file of fast power samples?"""
        return self._config.power in FAST_POWER and self._config.telemetry_rate_hz > 0

    def power_lines(self, start_ns: int, end_ns: int) -> list[str]:
        """Header and rows of the fast power samples of a span. Raises TelemetryError with the reason."""
        command = [
            sys.executable, "-m", "pqtelemetry", "power-slice", "--raw", str(self._power),
            "--from-ns", str(start_ns), "--to-ns", str(end_ns),
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, timeout=SLICE_TIMEOUT_S, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            raise TelemetryError(f"the power samples cannot be cut out: {error}") from error
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise TelemetryError(f"no power samples: {said[0] if said else done.returncode}")
        return done.stdout.decode().splitlines()

    def _watch(self) -> None:
        while not self._closing.is_set():
            try:
                self._child = subprocess.Popen(
                    self.command(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                )
            except OSError as error:
                self.reason = f"the sampler cannot be started: {error}"
                self._note(f"telemetry: {self.reason}")
                return
            self.reason = None
            stderr = self._child.stderr
            complaint = stderr.read().decode(errors="replace").strip() if stderr is not None else ""
            code = self._child.wait()
            if self._closing.is_set():
                return
            if "No module named" in complaint:
                self.reason = "pqtelemetry is not installed on this host"
                self._note(f"telemetry: {self.reason}; the telemetry stream stays empty")
                return
            self.restarts += 1
            last = complaint.splitlines()[-1] if complaint else "no message"
            self.reason = f"the sampler ended with code {code}: {last}"
            pause_s = RESTART_AFTER_S[min(self.restarts, len(RESTART_AFTER_S)) - 1]
            self._note(f"telemetry: {self.reason}; restart {self.restarts} in {pause_s:g} s")
            self._closing.wait(pause_s)

    def lines(self, start_ns: int, end_ns: int) -> list[str]:
        """Line-protocol lines stamped within [start_ns, end_ns], in the order written."""
        older = _lines_between(self._out.with_name(self._out.name + ".1"), start_ns, end_ns)
        return older + _lines_between(self._out, start_ns, end_ns)

    def facts(self) -> dict[str, Any]:
        """`pqtelemetry facts` as {"host": …, "sensors": …}. Where it is not installed or fails, host is None
        and a power sensor that was asked for is unavailable; "reason" says why."""
        command = [sys.executable, "-m", "pqtelemetry", "facts", *self._power_options()]
        try:
            done = subprocess.run(command, capture_output=True, timeout=FACTS_TIMEOUT_S, check=True)
            facts = json.loads(done.stdout)
            return {"host": facts["host"], "sensors": facts["sensors"]}
        except subprocess.TimeoutExpired:
            reason = f"pqtelemetry facts took longer than {FACTS_TIMEOUT_S:g} s on this host"
        except subprocess.CalledProcessError as error:
            last = error.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            reason = f"pqtelemetry facts ended with {error.returncode}: {last}"
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = f"pqtelemetry facts told nothing that can be read ({error})"
        self._note(f"telemetry: {reason}")
        unknown = {"name": "power", "sensor": self._config.power, "available": False, "reason": reason}
        return {"host": None, "sensors": [] if self._config.power == "none" else [unknown], "reason": reason}


def _lines_between(path: Path, start_ns: int, end_ns: int) -> list[str]:
    """Lines of a time-ordered file whose last field lies in the range; reads from the end, block by block."""
    try:
        with path.open("rb") as file:
            position = file.seek(0, os.SEEK_END)
            tail = b""
            while position > 0:
                step = min(_BLOCK_BYTES, position)
                position -= step
                file.seek(position)
                tail = file.read(step) + tail
                first_whole = tail.find(b"\n") + 1 if position else 0
                stamp = _stamp(tail[first_whole : tail.find(b"\n", first_whole)])
                if stamp is not None and stamp < start_ns:
                    break
    except FileNotFoundError:
        return []
    kept: list[str] = []
    for line in tail.split(b"\n")[:-1]:
        stamp = _stamp(line)
        if stamp is not None and start_ns <= stamp <= end_ns:
            kept.append(line.decode())
    return kept


def _stamp(line: bytes) -> int | None:
    """The timestamp that ends a line of the line protocol, ns."""
    last = line.rpartition(b" ")[2]
    return int(last) if last.isdigit() else None
