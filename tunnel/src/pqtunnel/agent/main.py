"""Assembly of an agent: one endpoint, its driver, its telemetry, its RPC server; runs until it is ended."""

from __future__ import annotations

import gc
import os
import ssl
import threading
import time

from pqbase import children
from pqbase.ending import Ending
from pqtunnel.agent.detectors import Detectors
from pqtunnel.agent.drivers.base import NoTraffic, TrafficDriver
from pqtunnel.agent.drivers.compose import ComposeTraffic
from pqtunnel.agent.facts import HostFacts
from pqtunnel.agent.faults import Faults
from pqtunnel.agent.feed import Feed
from pqtunnel.agent.flightlog import FlightLog
from pqtunnel.agent.machine import check_ring, played_by
from pqtunnel.agent.methods import Methods
from pqtunnel.agent.server import RpcServer
from pqtunnel.agent.state import CellState
from pqtunnel.agent.streams import Streams
from pqtunnel.agent.telemetry import Telemetry
from pqtunnel.agent.upkeep import CountersFile, Upkeep
from pqtunnel.agent.verdicts import Verdicts
from pqtunnel.config import ConfigError, EndpointConfig
from pqtunnel.endpoint.endpoint import Endpoint
from pqtunnel.endpoint.handshakes import Tunnel
from pqtunnel.endpoint.identity_files import load_drone, load_gcs
from pqtunnel.endpoint.tunnel import native_tunnel
from pqtunnel.errors import TunnelError
from pqtunnel.primitives import Primitives
from pqtunnel.rpc import TlsFiles


class Agent:
    """Everything one host runs. `tunnel`: the native one, where none is given. `open` returns when the agent
    answers; `close` leaves nothing behind."""

    def __init__(
        self,
        config: EndpointConfig,
        primitives: Primitives,
        *,
        state: CellState | None = None,
        tunnel: Tunnel | None = None,
    ) -> None:
        check_ring(config.ring, played_by())
        try:
            config.state_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"PQ_STATE {config.state_dir} cannot be made: {error.strerror or error}",
                hint="name a folder this user may write",
            ) from error
        self.config = config
        tls = TlsFiles.in_folder(config.keys)
        context = tls.context(ssl.Purpose.CLIENT_AUTH)
        keys = load_drone(config.keys) if config.role == "drone" else load_gcs(config.keys)
        self.endpoint = Endpoint(config, keys, primitives, tunnel or native_tunnel())
        note = self.endpoint.note
        counters = CountersFile(config.state_dir / "counters.json", note)
        self.telemetry = Telemetry(config, counters.path, note)
        self.facts = HostFacts(self.telemetry, note)
        self.state = state if state is not None else CellState()
        traffic: TrafficDriver = (
            ComposeTraffic(config.traffic_control) if config.traffic_control is not None else NoTraffic()
        )
        faults = Faults(self.endpoint, self.telemetry)
        feed = Feed(config, note)
        streams = Streams(self.telemetry, faults, feed, Verdicts(config.verdicts), FlightLog(traffic))
        self.methods = Methods(
            config,
            self.endpoint,
            traffic,
            self.facts,
            streams,
            self.state,
            faults,
            feed,
            Detectors(config.verdicts),
        )
        try:
            self.server = RpcServer(
                (config.control_bind, config.control_port), context, self.methods.table(), note
            )
        except TunnelError:
            self.endpoint.close()
            raise
        jobs = [
            self.endpoint.tick,
            self.methods.watchdog,
            lambda: counters.write({**self.methods.counters_now(), **_own_account()}),
        ]
        self.upkeep = Upkeep(jobs, note)
        self._server_thread = threading.Thread(target=self.server.serve, name="rpc-accept", daemon=True)

    def open(self) -> None:
        """Start every thread and the telemetry child."""
        self.endpoint.open()
        self.telemetry.open()
        self.facts.open()
        self.upkeep.open()
        self._server_thread.start()

    def close(self) -> None:
        """Stop serving, end the child, free the ports."""
        self.server.close()
        self.methods.shut_down()
        self.upkeep.close()
        self.telemetry.close()
        self.endpoint.close()
        self._server_thread.join(timeout=2.0)


def _own_account() -> dict[str, int]:
    """Whose file counters.json is, and its CPU time so far: where the system does not tell the sampler."""
    return {"pid": os.getpid(), "process_cpu_ns": time.process_time_ns()}


def run(config: EndpointConfig, primitives: Primitives, *, stop_with_stdin: bool = False) -> int:
    """Serve until `Ending`; returns the exit code. Raises TunnelError when it cannot start."""
    ending = Ending(with_stdin=stop_with_stdin)
    children.hold()
    agent = Agent(config, primitives)
    agent.open()
    # What start-up made lives as long as the process: keep the collector from walking it during handshakes.
    gc.collect()
    gc.freeze()
    host, port = agent.server.address
    agent.endpoint.note(f"agent ready on {host}:{port}, ring {config.ring}, pid-1 signals end it")
    ending.wait()
    agent.endpoint.note("agent ends")
    agent.close()
    return 0
