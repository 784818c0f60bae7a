"""Calls to the two agents: one thread and one open connection each, so that both ends are asked at once.

The threads are daemons: a run that is stopped by Ctrl-C never waits for an answer that takes a whole session.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Protocol, TypeVar

from pqbase.documents import Json, texts_of, whole_of
from pqbase.errors import PqError
from pqevidence.errors import LabError
from pqlab.inventory import AgentAddress, Inventory
from pqtunnel.rpc import RpcClient, RpcError, TlsFiles

T = TypeVar("T")

#: failures after which the agent has to be found again before the next cell
TRANSPORT_CODES = frozenset({"agent_unreachable", "rpc_timeout", "rpc_protocol"})
#: failures that no retry mends
KEY_CODES = frozenset({"wrong_key", "missing_key"})


class AgentClient(Protocol):
    """What the engine needs of a connection (`pqtunnel.rpc.RpcClient` is one). Raises RpcError."""

    def call(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        timeout_s: float | None = None,
        request_id: str | None = None,
    ) -> Json: ...

    def close(self) -> None: ...


Connect = Callable[[AgentAddress], AgentClient]


class AgentFailure(PqError):
    """A call that failed. `lost`: the agent itself is gone or does not answer; else it refused."""

    def __init__(self, role: str, error: RpcError) -> None:
        super().__init__(error.what, error.hint, error.code)
        self.role = role
        self.lost = error.code in TRANSPORT_CODES

    def as_lab_error(self) -> LabError:
        """The same for a user, exit code 4."""
        why = "it is gone or does not answer" if self.lost else "it answered with this error"
        return LabError(
            self.code.replace("_", "-"), self.what, f"{self.role} agent: {why}", self.hint or "./pqlab doctor"
        )


def tls_connector(inventory: Inventory) -> Connect:
    """Connections with the controller's identity. Raises LabError when there is none."""
    files = TlsFiles.in_folder(inventory.controller_keys)
    said: set[str] = set()

    def note(text: str) -> None:
        if text not in said:
            said.add(text)
            print(f"warning: {text}", file=sys.stderr)

    def connect(address: AgentAddress) -> AgentClient:
        try:
            return RpcClient(address.host, address.port, files, server_name=address.role, note=note)
        except RpcError as error:
            raise AgentFailure(address.role, error).as_lab_error() from error

    return connect


class Agent:
    """One agent and the thread that talks to it."""

    def __init__(self, address: AgentAddress, connect: Connect) -> None:
        self.address = address
        self._connect = connect
        self._client = connect(address)
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name=f"rpc-{address.role}", daemon=True).start()

    @property
    def role(self) -> str:
        return self.address.role

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Run `job` on this agent's thread, after everything submitted before."""
        future: Future[T] = Future()

        def work() -> None:
            try:
                result = job()
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the future
                future.set_exception(error)
            else:
                future.set_result(result)

        self._work.put(work)
        return future

    def call_here(
        self, method: str, params: Mapping[str, object] | None = None, *, timeout_s: float | None = None
    ) -> Json:
        """Call from this agent's own thread. Raises AgentFailure."""
        try:
            return self._client.call(method, params, timeout_s=timeout_s)
        except RpcError as error:
            raise AgentFailure(self.role, error) from error

    def start(
        self, method: str, params: Mapping[str, object] | None = None, *, timeout_s: float | None = None
    ) -> Future[Json]:
        """Call without waiting."""
        return self.submit(lambda: self.call_here(method, params, timeout_s=timeout_s))

    def call(
        self, method: str, params: Mapping[str, object] | None = None, *, timeout_s: float | None = None
    ) -> Json:
        """Call and wait. Raises AgentFailure."""
        return self.start(method, params, timeout_s=timeout_s).result()

    def abandon(self) -> None:
        """Leave the connection to whatever it is busy with, and start with a fresh one and a fresh thread."""
        self._work.put(None)
        self._work = queue.SimpleQueue()
        self._client = self._connect(self.address)
        threading.Thread(target=self._serve, name=f"rpc-{self.role}", daemon=True).start()

    def another(self) -> Agent:
        """A second connection to the same agent, for a call while a long one runs."""
        return Agent(self.address, self._connect)

    def close(self) -> None:
        self.submit(self._client.close)
        self._work.put(None)

    def _serve(self) -> None:
        work = self._work
        while (job := work.get()) is not None:
            job()


#: rows of a stream that are asked for at once
_FETCH_LIMIT = 20_000
#: the first page of a long session is cut out of the sampler's files: an agent gives that up after 120 s
_FETCH_S = 150.0


def stream_lines(agent: Agent, cell_id: str, stream: str) -> list[str]:
    """All lines of a stream, in chunks. Runs on the agent's own thread. Raises AgentFailure."""
    lines: list[str] = []
    since = 0
    while True:
        asked = {"cell_id": cell_id, "stream": stream, "since": since, "limit": _FETCH_LIMIT}
        page = agent.call_here("fetch", asked, timeout_s=_FETCH_S)
        lines.extend(texts_of(page, "lines"))
        since = whole_of(page, "next")
        if page["end"]:
            return lines


def fetch_stream(agent: Agent, cell_id: str, stream: str) -> Future[list[str]]:
    """The same, asked from any other thread."""
    return agent.submit(lambda: stream_lines(agent, cell_id, stream))


class Pair:
    """Both agents of a run."""

    def __init__(self, inventory: Inventory, connect: Connect) -> None:
        self.drone = Agent(inventory.agents["drone"], connect)
        self.gcs = Agent(inventory.agents["gcs"], connect)

    @property
    def agents(self) -> dict[str, Agent]:
        return {"drone": self.drone, "gcs": self.gcs}

    def both(
        self, method: str, params: Mapping[str, object] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Json]:
        """The same call at both ends at once. Waits for both, then raises AgentFailure."""
        futures = {
            role: agent.start(method, params, timeout_s=timeout_s) for role, agent in self.agents.items()
        }
        results, failure = wait_all(futures)
        if failure is not None:
            raise failure
        return results

    def close(self) -> None:
        for agent in self.agents.values():
            agent.close()


def wait_all(futures: dict[str, Future[T]]) -> tuple[dict[str, T], AgentFailure | None]:
    """Results by role, and the failure that explains most, after every future has ended."""
    results: dict[str, T] = {}
    worst: AgentFailure | None = None
    for role, future in futures.items():
        try:
            results[role] = future.result()
        except AgentFailure as error:
            # a peer that is gone explains the other end's complaint, not the other way round
            if worst is None or (error.lost and not worst.lost):
                worst = error
    return results, worst
