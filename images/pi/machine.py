"""The emulated machine: `save` boots it once and stores its state, `run COMMAND…` starts from that state.

QEMU emulates the processor (TCG), so nothing of the host is needed: no KVM, no privilege, no network.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path("/machine")
STATE = HERE / "state"
MONITOR = Path("/tmp/monitor")
BOOT_LIMIT_S = 400.0
SAVE_LIMIT_S = 120.0
LOAD_LIMIT_S = 60.0
RUN_LIMIT_S = 420.0


class MachineError(Exception):
    """The emulated machine did not do what it was told; the message says how far it came."""


def command() -> list[str]:
    """QEMU with a serial line on its standard streams and two shared folders, which the guest mounts."""
    share = "local,path={path},mount_tag={tag},security_model=none,id={tag}{more}"
    return [
        "qemu-system-x86_64",
        "-accel",
        "tcg,tb-size=64",
        "-machine",
        "q35",
        "-cpu",
        "max",
        "-smp",
        "1",
        "-m",
        "512",
        # guest time is instructions executed: a host that is busy elsewhere makes nothing late
        "-icount",
        "shift=1,sleep=off",
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
        "-chardev",
        "stdio,id=line,signal=off",
        "-serial",
        "chardev:line",
        "-monitor",
        f"unix:{MONITOR},server=on,wait=off",
        "-kernel",
        str(HERE / "vmlinuz"),
        "-initrd",
        str(HERE / "initrd"),
        # what the guest freed is zero, so the saved state is small
        "-append",
        "console=ttyS0 rdinit=/init quiet panic=-1 random.trust_cpu=on init_on_free=1",
        "-virtfs",
        share.format(path="/src", tag="src", more=",readonly=on"),
        "-virtfs",
        share.format(path="/out", tag="out", more=""),
    ]


class Machine:
    """One QEMU; its serial line is read line by line, and it never outlives its limit."""

    def __init__(self, qemu: list[str], limit_s: float) -> None:
        MONITOR.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            qemu, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._limit = threading.Timer(limit_s, self._process.kill)
        self._limit.daemon = True
        self._limit.start()

    def until(self, mark: str) -> str:
        """Print what the guest says up to a line that holds `mark`; returns it. Raises MachineError."""
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            line = raw.decode(errors="replace").strip()
            print(line, flush=True)
            if mark in line:
                return line
        raise MachineError(f"the machine ended or was stopped at its limit before it said {mark!r}")

    def say(self, line: str) -> None:
        """One line to the guest."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def monitor(self, order: str, wait_for: str = "", limit_s: float = 30.0) -> None:
        """One order to QEMU's monitor, repeated until its answer holds `wait_for`. Raises MachineError."""
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(5.0)
                try:
                    line.connect(str(MONITOR))
                    _answer(line)
                    line.sendall(order.encode() + b"\n")
                    if wait_for in _answer(line):
                        return
                except OSError:
                    pass  # not up yet, or busy loading: asked again until the limit
            time.sleep(0.5)
        raise MachineError(f"the monitor never answered {order!r} with {wait_for!r}")

    def save(self, state: Path) -> None:
        """Stop the guest and store its memory. Raises MachineError."""
        self.monitor("stop")
        self.monitor(f"migrate -d file:{state}")
        self.monitor("info migrate", "completed", SAVE_LIMIT_S)
        print(f"machine: state of {state.stat().st_size >> 20} MiB saved")

    def go_on(self) -> None:
        """Let a guest run that was started from a saved state. Raises MachineError."""
        # "paused" is said while the state is still being loaded as well, and an order to go on is lost then
        self.monitor("info migrate", "completed", LOAD_LIMIT_S)
        self.monitor("cont")
        self.monitor("info status", "running")

    def attend(self) -> int:
        """Print what the guest says until it ends, without a limit; QEMU's exit code."""
        self._limit.cancel()
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            print(raw.decode(errors="replace").strip(), flush=True)
        return self._process.wait()

    def end(self) -> None:
        """Stop QEMU."""
        self._limit.cancel()
        self._process.kill()
        self._process.wait()


def _answer(line: socket.socket) -> str:
    text = ""
    while not text.rstrip().endswith("(qemu)"):
        piece = line.recv(65536)
        if not piece:
            return text
        text += piece.decode(errors="replace")
    return text


def save() -> None:
    """Boot, wait until the guest is ready, store its state."""
    begin_s = time.monotonic()
    machine = Machine(command(), BOOT_LIMIT_S)
    try:
        machine.until("guest: ready")
        print(f"machine: booted in {time.monotonic() - begin_s:.1f} s", flush=True)
        machine.save(STATE)
    finally:
        machine.end()


def run(arguments: list[str]) -> int:
    """Start from the saved state and run a command in the guest; returns its exit code."""
    begin_s = time.monotonic()
    machine = Machine([*command(), "-incoming", f"file:{STATE}"], RUN_LIMIT_S)
    try:
        machine.monitor("info status", "paused", 60.0)
        machine.monitor("cont")
        machine.monitor("info status", "running")
        print(f"machine: started in {time.monotonic() - begin_s:.1f} s from the saved state", flush=True)
        machine.say(f"go {int(time.time())} {' '.join(arguments)}")
        return int(machine.until("guest: done").rpartition(" ")[2])
    finally:
        machine.end()


def main(arguments: list[str]) -> int:
    """Entry point."""
    try:
        if arguments == ["save"]:
            save()
            return 0
        return run(arguments)
    except MachineError as error:
        print(f"machine: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
