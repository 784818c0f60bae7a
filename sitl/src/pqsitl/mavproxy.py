"""MAVProxy at both ends, as a user would run it, with nothing that measures or steers on its own.

- `--streamrate=-1`: it asks the vehicle for no rates (its default re-sends its own every 15 s).
- no `param`, `wp`, `ftp`, `terrain` module: nothing is downloaded, so no burst falls into a measured window.
- `--nowait`: it does not wait for a heartbeat; `--no-state`: no log, no state, fit for a read-only root.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pqsitl.errors import SourceUnavailableError
from pqsitl.net import udp_is_bound, udp_socket_state
from pqsitl.supervise import Supervised

AIR_MASTER_PORT = 14550
AIR_OUT_PORT = 47004
GROUND_MASTER_PORT = 47002
GROUND_CLIENT_PORT = 14555
MODULES = {"air": "output", "ground": "output,arm,mode,cmdlong"}
"""`link` is always there. A user's own choice: PQ_MAVPROXY_MODULES."""


STUCK_BYTES = 65_536
"""More than this waiting at the master port is no passing burst."""


@dataclass(frozen=True)
class MavproxyPlan:
    """Where one MAVProxy listens: towards the vehicle (`master`) and towards the next hop (`outs`)."""

    role: str
    master: str
    outs: tuple[str, ...]
    modules: str

    @property
    def master_port(self) -> int:
        return int(self.master.rsplit(":", 1)[1])

    def command(self) -> list[str]:
        """The command line. Both directions listen (`udpin`): peers announce themselves."""
        arguments = [f"--master=udpin:{self.master}", *(f"--out=udpin:{out}" for out in self.outs)]
        fixed = ["--daemon", "--non-interactive", "--streamrate=-1", "--nowait", "--no-state"]
        dialect = ["--mav20", "--dialect=ardupilotmega", f"--default-modules={self.modules}"]
        if sys.platform == "win32":
            return [sys.executable, "-m", "pqsitl.windowsproxy", *arguments, *fixed, *dialect, "--no-console"]
        return [sys.executable, "-m", "MAVProxy.mavproxy", *arguments, *fixed, *dialect]


def modules_for(role: str) -> str:
    return os.environ.get("PQ_MAVPROXY_MODULES") or MODULES[role]


def air_plan(
    host: str = "0.0.0.0", master_port: int = AIR_MASTER_PORT, out_port: int = AIR_OUT_PORT
) -> MavproxyPlan:
    """Vehicle side: the vehicle sends to the master port, the tunnel end announces itself at the out port."""
    return MavproxyPlan("air", f"{host}:{master_port}", (f"{host}:{out_port}",), modules_for("air"))


def ground_plan(
    host: str = "0.0.0.0", master_port: int = GROUND_MASTER_PORT, client_port: int = GROUND_CLIENT_PORT
) -> MavproxyPlan:
    """Ground side: the tunnel's plaintext comes to the master port, local clients join at the client port."""
    return MavproxyPlan(
        "ground", f"{host}:{master_port}", (f"127.0.0.1:{client_port}",), modules_for("ground")
    )


def version() -> str | None:
    """Installed version, None when there is none."""
    try:
        return importlib.metadata.version("MAVProxy")
    except importlib.metadata.PackageNotFoundError:
        return None


class Mavproxy:
    """A running MAVProxy with a private home under the temporary directory."""

    def __init__(self, plan: MavproxyPlan, *, stuck_s: float = 10.0) -> None:
        if importlib.util.find_spec("MAVProxy") is None:
            raise SourceUnavailableError(
                "MAVProxy is not installed",
                "pip install --no-deps MAVProxy==1.8.75 pyserial (the sitl image has it)",
            )
        self.plan = plan
        self.stuck_s = stuck_s
        self._unread_since_s: float | None = None
        self._home = tempfile.TemporaryDirectory(prefix=f"mavproxy-{plan.role}-")
        home = self._home.name
        environment = {
            "HOME": home,
            "PYTHONUTF8": "1",
            "MAVLINK20": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.process = Supervised(
            f"mavproxy-{plan.role}", plan.command(), cwd=Path(home), environment=environment
        )

    @property
    def stuck(self) -> bool:
        """It lives, but has left datagrams unread for `stuck_s`; means something when asked every second.

        Never on Windows, which tells nobody how much waits at a port.
        """
        state = udp_socket_state(self.plan.master_port)
        now = time.monotonic()
        if state is None or state[0] < STUCK_BYTES:
            self._unread_since_s = None
        elif self._unread_since_s is None:
            self._unread_since_s = now
        return self._unread_since_s is not None and now - self._unread_since_s > self.stuck_s

    @property
    def ready(self) -> bool:
        """It runs and listens for the vehicle."""
        return self.process.exit_status is None and udp_is_bound(self.plan.master_port)

    def facts(self) -> dict[str, object]:
        """For hello: version, command line, ports."""
        return {"version": version(), "command": shown(self.process.command), "ready": self.ready}

    def stop(self) -> None:
        self.process.stop()
        self._home.cleanup()


def shown(command: Sequence[str]) -> str:
    """The command line for people, without this host's interpreter path."""
    return " ".join(["mavproxy.py", *command[3:]])
