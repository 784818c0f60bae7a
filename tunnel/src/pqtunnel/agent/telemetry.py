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
from functools import partial
from pathlib import Path
from typing import Final

from pqbase.documents import Json
from pqbase.ending import STDIN_OPTION
from pqbase.patience import patiently
from pqtunnel.agent.lineblock import LineBlock
from pqtunnel.config import FAST_POWER, EndpointConfig
from pqtunnel.errors import TunnelError

RESTART_AFTER_S: Final = (1.0, 2.0, 5.0, 15.0, 30.0)
FACTS_TIMEOUT_S: Final = 60.0
"""A slow processor that loads the endpoint's libraries meanwhile needs twenty seconds for it; a fast power
sensor's verdict is waited for, 8 s at most."""
SLICE_TIMEOUT_S: Final = 120.0
"""An hour at 1 kHz takes 8 s of a server's processor, and a board's several times that."""
_BLOCK_BYTES: Final = 1 << 20
ON_WINDOWS: Final = sys.platform == "win32"


class TelemetryError(TunnelError):
    """The sampler is not there."""

    code = "no_sampler"
    hint = "docker logs of the endpoint says why"


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
        for file in (self._out, self._power):
            for stale in file.parent.glob(file.name + "*"):
                patiently(partial(stale.unlink, missing_ok=True))
        self._thread = threading.Thread(target=self._watch, name="telemetry-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the child."""
        self._closing.set()
        child = self._child
        if child is not None and child.poll() is None:
            self._ask_to_end(child)
            self.go_on()  # a stalled one would not hear it
            try:
                child.wait(timeout=2.0)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if self._thread is not None:
            self._thread.join(timeout=3.0)

    @staticmethod
    def _ask_to_end(child: subprocess.Popen[bytes]) -> None:
        """SIGTERM, and on Windows, where that kills, the end of the child's standard input."""
        if child.stdin is None:
            child.terminate()
        else:
            child.stdin.close()

    def stall(self) -> None:
        """Stop the child where it is, as a sensor that hangs. Raises TelemetryError when there is none."""
        if sys.platform == "win32":
            raise TelemetryError("this platform cannot stop a process", hint="run the event on Linux")
        child = self._child
        if child is None or child.poll() is not None:
            raise TelemetryError(f"no sampler runs: {self.reason}")
        child.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End a stall; a child that died meanwhile has been replaced by one that runs."""
        child = self._child
        if sys.platform != "win32" and child is not None and child.poll() is None:
            child.send_signal(signal.SIGCONT)

    def command(self) -> list[str]:
        """The child's command line."""
        config = self._config
        telegraf = f"{config.telegraf[0]}:{config.telegraf[1]}" if config.telegraf else "none"
        return [
            sys.executable,
            "-m",
            "pqtelemetry",
            "sample",
            "--role",
            config.role,
            "--ring",
            config.ring,
            "--rate-hz",
            str(config.telemetry_rate_hz),
            "--pid",
            str(os.getpid()),
            "--counters",
            str(self._counters),
            "--out",
            str(self._out),
            "--telegraf",
            telegraf,
            *self._power_options(),
            "--exit-with-parent",
            *([STDIN_OPTION] if ON_WINDOWS else []),
        ]

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

    def power_lines(self, start_ns: int, end_ns: int) -> LineBlock:
        """Header and rows of the fast power samples of a span. Raises TelemetryError with the reason."""
        command = [
            sys.executable,
            "-m",
            "pqtelemetry",
            "power-slice",
            "--raw",
            str(self._power),
            "--from-ns",
            str(start_ns),
            "--to-ns",
            str(end_ns),
        ]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SLICE_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise TelemetryError(f"the power samples cannot be cut out: {error}") from error
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise TelemetryError(f"no power samples: {said[0] if said else done.returncode}")
        return LineBlock(done.stdout)

    def _watch(self) -> None:
        while not self._closing.is_set():
            try:
                self._child = subprocess.Popen(
                    self.command(),
                    stdin=subprocess.PIPE if ON_WINDOWS else subprocess.DEVNULL,
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

    def lines(self, start_ns: int, end_ns: int) -> LineBlock:
        """Line-protocol lines stamped within [start_ns, end_ns], in the order written."""
        while True:
            begun = self._segment()
            parts = self._parts(start_ns, end_ns)
            if self._segment() == begun:
                return LineBlock(b"".join(reversed(parts)))
            # every segment has moved on by one name meanwhile: some lines were read twice, or not at all

    def _segment(self) -> int | None:
        """What tells the segment in use from the next one."""
        try:
            return self._out.stat().st_ino
        except FileNotFoundError:
            return None

    def _parts(self, start_ns: int, end_ns: int) -> list[bytes]:
        """Lines of each segment (`<file>`, `<file>.1`, …), the newest first."""
        numbered = self._out.parent.glob(self._out.name + ".*")
        parts: list[bytes] = []
        for segment in (self._out, *sorted(numbered, key=lambda path: int(path.suffix[1:]))):
            lines, from_before = _lines_between(segment, start_ns, end_ns)
            parts.append(lines)
            if from_before:
                break  # what is older still is older than `start_ns`, too
        return parts

    def facts(self) -> Json:
        """`pqtelemetry facts` as {"host": …, "sensors": …}. Where it is not installed or fails, host is None
        and a power sensor that was asked for is unavailable; "reason" says why."""
        command = [sys.executable, "-m", "pqtelemetry", "facts", *self._power_options()]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=FACTS_TIMEOUT_S,
                check=True,
            )
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


def _lines_between(path: Path, start_ns: int, end_ns: int) -> tuple[bytes, bool]:
    """Lines of a time-ordered file whose last field lies in the range, and whether it has any from before the
    range. Looks for the place to read from in steps from the end: the newest are asked for most."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin, reach, from_before = size, _BLOCK_BYTES, False
            while begin > 0 and not from_before:
                begin, reach = max(0, size - reach), 2 * reach
                file.seek(begin)
                if begin > 0:
                    file.readline()  # the rest of a line
                stamp = _stamp(file.readline().rstrip(b"\n"))
                from_before = stamp is not None and stamp < start_ns
            file.seek(begin)
            if begin > 0:
                file.readline()
            kept = bytearray()
            for line in file:
                stamp = _stamp(line[:-1]) if line.endswith(b"\n") else None
                if stamp is not None and start_ns <= stamp <= end_ns:
                    kept += line
            return bytes(kept), from_before
    except FileNotFoundError:
        return b"", False


def _stamp(line: bytes) -> int | None:
    """The timestamp that ends a line of the line protocol, ns."""
    last = line.rpartition(b" ")[2]
    return int(last) if last.isdigit() else None
