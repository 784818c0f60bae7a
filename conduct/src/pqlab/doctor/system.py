"""The machine as the checks see it: files below a root, commands, free space, time. All can be replaced."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pqtunnel.quiet import Probe, probe

COMMAND_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class CommandResult:
    """`code` is None when there is no such command."""

    code: int | None
    stdout: str
    stderr: str


def run_command(arguments: Sequence[str]) -> CommandResult:
    """Run a command that only looks; a command that hangs counts as failed."""
    try:
        done = subprocess.run(
            list(arguments), capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        return CommandResult(None, "", f"no command {arguments[0]}")
    except (OSError, subprocess.TimeoutExpired) as error:
        return CommandResult(1, "", str(error))
    return CommandResult(done.returncode, done.stdout.strip(), done.stderr.strip())


@dataclass(frozen=True)
class System:
    """project: the checkout; root: where proc, sys and dev are."""

    project: Path
    root: Path = Path("/")
    command: Callable[[Sequence[str]], CommandResult] = run_command
    free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free
    sleep: Callable[[float], None] = time.sleep
    monotonic_ns: Callable[[], int] = time.monotonic_ns
    realtime_ns: Callable[[], int] = time.time_ns
    probe: Callable[[], Probe] = probe

    def text(self, path: str) -> str:
        """A file below the root; raises OSError."""
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder below the root."""
        return (self.root / path).exists()

    def files(self, pattern: str) -> list[str]:
        """Paths below the root that match a glob, in order, as `text` takes them."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.glob(pattern))

    def write(self, path: str, text: str) -> None:
        """Set a file of sysfs or sysctl; raises OSError. Never makes one."""
        descriptor = os.open(self.root / path, os.O_WRONLY | os.O_TRUNC)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
