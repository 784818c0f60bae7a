"""One look at a host, by ssh: does it let us in, what does it say of itself, how far is its clock off.

Two connections a host, both without a password and without a question; nothing is changed there.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pqlab.doctor.pair import Offset
from pqlab.inventory import DEFAULT_AGENT_PORT
from pqlab.setup.answers import Answers

LOOK = Path(__file__).with_name("look.sh.txt").read_text(encoding="utf-8")
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=8")
LOOK_S = 40.0
CLOCK_COMMAND = "while read -r _; do date +%s%N; done"
CLOCK_SAMPLES = 8
CLOCK_S = 20.0
CONNECT_S = 4.0


@dataclass(frozen=True)
class Host:
    """One end as the inventory has it. role: drone or gcs; peer: the other end on the measured link."""

    role: str
    address: str
    user: str
    peer: str
    windows: bool = False

    @property
    def login(self) -> str:
        """As ssh takes it."""
        return f"{self.user}@{self.address}"


@dataclass
class Seen:
    """What a look found. refused: what ssh said where it did not let us in; control: how the control port
    answered from here: open, refused or silent."""

    refused: str | None = None
    facts: dict[str, list[str]] = field(default_factory=dict)
    whole: bool = False
    offset: Offset | None = None
    no_clock: str = ""
    control: str = "silent"

    def one(self, name: str) -> str:
        """The fact, or nothing."""
        return next(iter(self.facts.get(name, ())), "")


def hosts_of(answers: Answers) -> tuple[Host, Host]:
    """Drone and ground station."""
    windows = answers["gcs_platform"] == "windows"
    return (
        Host("drone", answers["drone"], answers["drone_user"], answers["gcs_link"]),
        Host("gcs", answers["gcs"], answers["gcs_user"], answers["drone_link"], windows),
    )


def reach(address: str, port: int) -> str:
    """How a TCP port answers from here: open, refused (the host is there) or silent."""
    try:
        with socket.create_connection((address, port), timeout=CONNECT_S):
            return "open"
    except ConnectionRefusedError:
        return "refused"
    except OSError:
        return "silent"


def look(host: Host, knock: Callable[[str, int], str] = reach) -> Seen:
    """Ask one host. Never raises for what it finds amiss."""
    seen = Seen()
    command = "ver" if host.windows else f"sh -s -- {host.peer}"
    try:
        done = subprocess.run(
            [*SSH, host.login, command],
            input="" if host.windows else LOOK,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LOOK_S,
            check=False,
        )
    except FileNotFoundError:
        seen.refused = "no command ssh on this machine"
        return seen
    except subprocess.TimeoutExpired:
        seen.refused = f"Connection timed out after {LOOK_S:.0f} s"
        return seen
    if done.returncode == 255:  # ssh's own failure, whatever the command would have returned
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        seen.refused = "\n".join(lines) or "ssh gave no reason"
        return seen
    for line in done.stdout.splitlines():
        head, _, rest = line.partition(" ")
        name, _, value = rest.partition(" ")
        if head == "pq":
            seen.facts.setdefault(name, []).append(value.strip())
    seen.whole = "end" in seen.facts
    if not host.windows:
        _read_clock(host, seen)
    seen.control = knock(host.address, DEFAULT_AGENT_PORT)
    return seen


def _read_clock(host: Host, seen: Seen) -> None:
    """The exchange with the shortest round trip, and its half as bound."""
    with subprocess.Popen(
        [*SSH, host.login, CLOCK_COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            best: Offset | None = None
            for _ in range(CLOCK_SAMPLES):
                offset = _exchange(child)
                if best is None or offset.bound_ms < best.bound_ms:
                    best = offset
            seen.offset = best
        except (OSError, ValueError) as error:
            seen.no_clock = f"its clock could not be read: {error}"
        finally:
            child.kill()


def _exchange(child: subprocess.Popen[bytes]) -> Offset:
    """Ask for the time once. Raises OSError where no answer comes, ValueError where it is no time."""
    assert child.stdin is not None and child.stdout is not None
    sent_ns = time.time_ns()
    child.stdin.write(b"\n")
    child.stdin.flush()
    if not select.select([child.stdout], [], [], CLOCK_S)[0]:
        raise OSError(f"no answer within {CLOCK_S:.0f} s")
    # the file itself: what a buffered reader took in, select would not show any more
    there = os.read(child.stdout.fileno(), 64)
    back_ns = time.time_ns()
    if not there:
        raise OSError("the connection ended")
    return Offset((int(there) - (sent_ns + back_ns) / 2) / 1e6, (back_ns - sent_ns) / 2e6)
