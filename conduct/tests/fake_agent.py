"""A drone and a gcs in memory, for the engine's control flow. They measure nothing; they keep the states.

A test scripts what goes wrong (hooks), reads what was asked (`FakeAgent.calls`), and moves time by hand.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from pqevidence.plan import Cell
from pqevidence.scenario import Overrides, Scenario, load_scenario
from pqlab.campaign.engine import Surroundings
from pqlab.campaign.outputs import Outputs
from pqlab.inventory import AgentAddress, Inventory
from pqtunnel import suites as registry
from pqtunnel.agent.attest import Attestation
from pqtunnel.errors import TunnelError
from pqtunnel.rpc import AgentUnreachableError, RemoteError

Json = dict[str, Any]
#: a hook sees (agent, method, params) before the agent acts; what it raises is the answer
Hook = Callable[["FakeAgent", str, Json], None]


class FakeClock:
    """Time that passes only when somebody sleeps; shared by both agents and the engine."""

    def __init__(self) -> None:
        self._now_s = 1_000_000.0
        self._lock = threading.Lock()

    def realtime_ns(self) -> int:
        return round(self.monotonic_s() * 1e9)

    def monotonic_s(self) -> float:
        with self._lock:
            self._now_s += 1e-4  # every look costs a little, so that stamps differ
            return self._now_s

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._now_s += seconds


class FakeAgent:
    """One end. `down` makes it unreachable; `hooks` see every call first."""

    def __init__(self, role: str, clock: FakeClock) -> None:
        self.role = role
        self.clock = clock
        self.state = "idle"
        self.cell_id: str | None = None
        self.down = False
        self.calls: list[tuple[str, Json]] = []
        self.hooks: list[Hook] = []
        self.attestation = Attestation(role)
        self.facts: Json = {
            "role": role,
            "ring": "lab",
            "agent_version": "0.1.0",
            "protocol_version": 1,
            "host": {"machine": "x86_64", "boot_id": "boot", "hostname": "fake"},
            "providers": {"liboqs": {"version": "0.13.0", "sha256": "aa"}, "python": "3.13.0"},
            "suites": {name: {"status": "available", "reason": None} for name in registry.SUITES},
            "selftest": {"ok": True, "items": []},
            "sensors": [],
        }

    def attests(self) -> None:
        """From now on it swears to what it hands out, as a real agent does."""
        self.facts["attestation"] = "pqlab/attestation/v1"
        self.attestation = Attestation(self.role)

    def do_attest(self, **params: Any) -> Json:
        try:
            return self.attestation.handle(params)
        except TunnelError as error:
            raise RemoteError(
                f"{self.role}: {error}", code=error.code, hint=error.hint, rpc_code=-32000, data={}
            ) from error

    def call(self, method: str, params: Json) -> Json:
        self.calls.append((method, params))
        for hook in list(self.hooks):
            hook(self, method, params)
        if self.down:
            raise AgentUnreachableError(f"no {self.role} agent", hint="make lab-up")
        answer: Json = getattr(self, f"do_{method}")(**params)
        return answer

    def methods(self) -> list[str]:
        """Names of the calls so far; events by their kind."""
        return [params.get("kind", method) for method, params in self.calls]

    def restart(self) -> None:
        self.state, self.cell_id = "idle", None
        self.attestation = Attestation(self.role)

    def _require(self, *states: str) -> None:
        if self.state not in states:
            raise RemoteError(
                f"{self.role}: the agent is {self.state}", code="bad_state", hint="", rpc_code=-32000, data={}
            )

    def do_hello(self) -> Json:
        return {**self.facts, "state": self.state, "cell_id": self.cell_id}

    def do_counters(self) -> Json:
        return {
            "state": self.state,
            "cell_id": self.cell_id,
            "counters": {},
            "t_ns": self.clock.realtime_ns(),
        }

    def do_prepare(self, cell_id: str, **asked: Any) -> Json:
        self._require("idle")
        self.state, self.cell_id = "prepared", cell_id
        self.attestation.prepared(cell_id, str(asked.get("suite_id")))
        return {"state": "prepared"}

    def do_start(self, cell_id: str) -> Json:
        self._require("prepared")
        self.state = "running"
        return {"state": "running"}

    def do_event(self, cell_id: str, kind: str, **params: Any) -> Json:
        self._require("running")
        now = self.clock.realtime_ns()
        if kind == "handshake_block":
            return {"completed": params["count"], "failed": 0, "failures": [], "handshake_ids": []}
        if kind == "key_pool":
            return {"ready": params["target"]}
        if kind == "traffic_open":
            opened = {"source": "embedded", "open_ns": now}
            self.attestation.answered(params["window"], opened)
            return opened
        if kind == "traffic_run":
            self.clock.sleep(params["duration_s"])
        closed = {"open_ns": now, "close_ns": self.clock.realtime_ns(), "source_report": {}}
        if kind in ("traffic_run", "traffic_close"):
            self.attestation.answered(params["window"], closed)
        return closed

    def do_stop(self, cell_id: str) -> Json:
        self._require("prepared", "running")
        self.state = "idle"
        self.attestation.stopped(cell_id, {"tx_data": 1})
        return {"state": "idle", "counters": {"tx_data": 1}}

    def do_fetch(self, cell_id: str, stream: str, since: int, limit: int) -> Json:
        lines = {
            "events": [json.dumps({"t_ns": self.clock.realtime_ns(), "host": self.role, "event": "note"})]
            * 3,
            "spans": [json.dumps({"host": self.role, "step": f"step {n}"}) for n in range(3)],
            "telemetry": [f"pq_cpu,host={self.role} system_pct=1 {n}" for n in range(3)],
        }.get(stream, [f"{stream} {n}" for n in range(3)])
        page = lines[since : since + 2]  # pages of two, so that paging is always exercised
        answer = {"lines": page, "next": since + len(page), "end": since + len(page) >= len(lines)}
        self.attestation.handed_out(cell_id, stream, since, answer)
        return answer


class FakeConnection:
    """What `connect` gives: the engine's view of one FakeAgent."""

    def __init__(self, agent: FakeAgent) -> None:
        self._agent = agent

    def call(
        self,
        method: str,
        params: Json | None = None,
        *,
        timeout_s: float | None = None,
        request_id: str | None = None,
    ) -> Json:
        return self._agent.call(method, params or {})

    def close(self) -> None:
        return


class QuietReporter:
    """Keeps what a user would have seen."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def begin(self, total: int, done: int, eta_s: float | None) -> None:
        self.lines.append(f"begin {done}/{total}")

    def cell_begins(self, cell: Cell, attempt: int, why: str | None = None) -> None:
        self.lines.append(f"cell {cell.position} attempt {attempt}{f' because {why}' if why else ''}")

    def cell_ends(self, position: int, record: Json, eta_s: float | None) -> None:
        self.lines.append(f"cell {position} {record['verdict']}")

    def note(self, text: str) -> None:
        self.lines.append(text)

    def end(self) -> None:
        self.lines.append("end")


def fake_record(script: dict[int, list[str]]) -> Callable[[Path, Json, Any], Json]:
    """A record builder that sees errors and unsupported cells in the raw files, else follows `script`.

    script: position → verdicts of its attempts, in order; positions not named pass.
    """

    def build(folder: Path, row: Json, _context: Any) -> Json:
        events = [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]
        mine = [e for e in events if e["host"] == "controller"]
        verdict, reason = "pass", None
        for event in mine:
            if event["event"] in ("unsupported", "not-run"):
                verdict, reason = event["event"], event["reason"]
            if event["event"] == "error":
                verdict, reason = "invalid" if event.get("killed") else "fail", event["reason"]
        if verdict == "pass" and script.get(row["position"]):
            verdict = script[row["position"]].pop(0)
            reason = None if verdict == "pass" else f"{verdict}, as the test says"
        times = [e["t_ns"] for e in mine]
        repeats = sum(1 for path in folder.glob("attempt-*") if path.is_dir())
        return {
            **row,
            "verdict": verdict,
            "reason": reason,
            "attempts": 0 if verdict in ("unsupported", "not-run") else 1 + repeats,
            "wall": {"start_ns": min(times), "end_ns": max(times)},
            "categories": {},
        }

    return build


def fake_seal(work: Path, results: Path, secrets: list[Path]) -> Path:
    """Rename and move `latest`, as the real one does last."""
    target = results / work.name
    work.rename(target)
    link = results / "latest.new"
    link.symlink_to(target.name)
    link.replace(results / "latest")
    return target


@dataclass
class FakeLab:
    """Everything a campaign needs, in one folder of the test's own."""

    root: Path
    script: dict[int, list[str]] = field(default_factory=dict)
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.drone = FakeAgent("drone", self.clock)
        self.gcs = FakeAgent("gcs", self.clock)
        self.reporter = QuietReporter()
        self.results = self.root / "results"
        key = self.root / "keys" / "controller" / "tls.key.pem"
        key.parent.mkdir(parents=True, exist_ok=True)
        key.write_text("not a key\n")
        self.outputs = Outputs(
            load_context=lambda data: None,
            build_record=fake_record(self.script),
            analyse=lambda root: None,
            render=lambda root: None,
            seal=fake_seal,
            reconcile=None,
        )

    def inventory(self) -> Inventory:
        agents = {
            role: AgentAddress(role, role, "127.0.0.1", port) for port, role in enumerate(("drone", "gcs"))
        }
        return Inventory(self.root / "lab.ini", agents, "lab", self.root / "keys", None, "pqlab", None)

    def connect(self, address: AgentAddress) -> FakeConnection:
        return FakeConnection(self.drone if address.role == "drone" else self.gcs)

    def around(self, *, strict: bool = False, token: str = "abc123") -> Surroundings:
        return Surroundings(
            inventory=self.inventory(),
            results=self.results,
            connect=self.connect,
            clock=self.clock,
            outputs=self.outputs,
            reporter=self.reporter,
            token=lambda: token,
            command=["pqlab", "run", "test"],
            strict=strict,
        )

    def scenario(self, cells: int = 3) -> Scenario:
        """One suite, `cells` repetitions, a short session and one bulk step."""
        return self.asked("traffic: {session_s: 5}\nbulk: {rates_pps: [600]}\n", repetitions=cells)

    def asked(self, text: str, **overrides: Any) -> Scenario:
        """One suite, and what `text` says beside it."""
        file = self.root / "test.yml"
        head = "schema: pqlab/scenario/v1\nname: test\nsuites: [cs-mlkem768-aesgcm-mldsa65]\n"
        file.write_text(head + text)
        return load_scenario(str(file), Overrides(**overrides))


def dies(lab: FakeLab, agent: FakeAgent) -> Any:
    """A long call ends with the agent that answers it: its `do_event`."""
    whole = agent.do_event

    def do_event(cell_id: str, kind: str, **params: Any) -> Json:
        if kind == "traffic_run":
            for _ in range(round(params["duration_s"] / 0.02)):
                lab.clock.sleep(0.02)
                if agent.down:
                    raise AgentUnreachableError("the connection was closed")
            params = {**params, "duration_s": 0.0}
        return whole(cell_id, kind, **params)

    return do_event


def interrupt(_agent: FakeAgent) -> NoReturn:
    """Ctrl-C at the controller, for a hook."""
    raise KeyboardInterrupt


def once(method: str, act: Callable[[FakeAgent], None], *, kind: str | None = None, at: int = 1) -> Hook:
    """A hook that acts on the `at`-th call of `method` (an event of `kind`), and never again."""
    seen = 0

    def hook(agent: FakeAgent, called: str, params: Json) -> None:
        nonlocal seen
        if called == method and (kind is None or params.get("kind") == kind):
            seen += 1
            if seen == at:
                act(agent)

    return hook
