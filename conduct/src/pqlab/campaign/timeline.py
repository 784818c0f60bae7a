"""One cell's timed part: the link it runs on, its rekey schedule, and events at set times of the session.

Nothing here is needed for the healing: link settings lapse at the router, an attack ends at the attacker,
stalls and offsets end at the agent, restarts, pauses and full disks in a process of their own. `heal` makes
it sooner and writes down what it did.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from pqattack.errors import SettingsError
from pqattack.settings import Episode
from pqbase.documents import Json, number_of, part_of, rows_of, whole_of
from pqevidence.errors import LabError
from pqevidence.plan import Cell
from pqevidence.record.attack import truth_lines
from pqevidence.record.faults import CYCLE
from pqevidence.record.link_ledger import LINK_LEDGER, ledger_text, trace_path
from pqevidence.scenario.attacks import attack_events, attacked, episode_of
from pqevidence.scenario.conditions import routed, traces_of, without
from pqlab.campaign.agents import Agent, AgentFailure, Pair, fetch_stream
from pqlab.campaign.attack import AttackControl, AttackFailure
from pqlab.campaign.canary import AGENT_CANARY
from pqlab.campaign.clock import Clock
from pqlab.campaign.faults import DiskFull, Pause, Restart, container_of
from pqlab.campaign.link import LinkControl, LinkFailure
from pqlab.campaign.link_probe import ProbeSettings, probe_link
from pqlab.campaign.neighbours import NO_NEIGHBOURS, Neighbours
from pqlab.campaign.place import NO_PLACE, Place
from pqlab.campaign.power_cycle import power_cycle
from pqlab.campaign.store import data_of, write_atomic, write_json
from pqlab.campaign.timed import LastWords
from pqlab.lab_number import lab_number
from pqlink.settings import BLOCKED, Side
from pqtunnel.rpc import RpcError

SCHEMA_VERSION: Final = "pqlab/link/v1"
PROBE_WINDOW: Final = "link_probe"
#: services between the samplers and whoever looks at the view
VIEW: Final = ("telegraf", "influxdb")
#: they go on by themselves after this, should the controller die; longer sessions would show them awake
_VIEW_LIMIT_S: Final = 300.0
#: an event without `for_s` lasts as long as it is allowed to
_LONGEST_S: Final = 3600.0
_STEP_S: Final = 0.05
_SLACK_S: Final = 30.0
_HANDLED_BY_AGENT: Final = ("clock_offset", "sensor_stall", "rekey", "request_rekey", "policy_input")
#: keys of an event that its agent needs
_PASSED_ON: Final = ("for_s", "offset_ms", "suite_id", "values")
#: how long an end that was killed may take to make a session again: its container starts, its self-test runs
RETURN_S: Final = 60.0
#: opened and closed at an end that came back, with nothing measured in it
RECOVERED_WINDOW: Final = "recovered"
#: streams of an end that its kill would take away: they tell of the handshakes before it
_LAST_STREAMS: Final = ("spans", "events", "log")
#: an attempt that fails is this event's result, not a fault of the cell
_MAY_FAIL: Final = ("rekey", "request_rekey")


class Journal(Protocol):
    """The controller's account of the cell."""

    def event(self, kind: str, **details: object) -> None: ...


class Timeline:
    """`before` the handshakes, `during` the session, `heal` always."""

    def __init__(
        self,
        condition: Json,
        cell: Cell,
        pair: Pair,
        clock: Clock,
        journal: Journal,
        link: LinkControl | None,
        attack: AttackControl | None = None,
        *,
        folder: Path | None = None,
        project: str | None = None,
        place: Place = NO_PLACE,
        neighbours: Neighbours = NO_NEIGHBOURS,
    ) -> None:
        self._condition = condition
        self._cell = cell
        self._pair = pair
        self._clock = clock
        self._journal = journal
        self._link = link
        self._attack = attack
        self._attacking = False
        self._folder = folder
        self._project = project
        self._place = place
        self._neighbours = neighbours
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._restarts: list[Restart | Pause] = []
        self._full: list[DiskFull] = []
        self._view: list[Pause] = []
        self._canary: Json | None = None
        self._document: Json | None = None
        self._orders: Json = {}
        self._killed: dict[str, LastWords] = {}

    @property
    def killed(self) -> dict[str, LastWords]:
        """Ends that were killed because the condition asks for it, and what they held before."""
        return self._killed

    # ------------------------------------------------------------------ before

    def before(self, orders: Json | None = None) -> None:
        """Link in place, confirmed and probed; the attacker listening; rekey schedule armed. Raises
        AgentFailure (role `link` or `attacker`). orders: what `prepare` told both ends of the cell."""
        self._orders = dict(orders or {})
        if routed(self._condition):
            try:
                self._take_link()
            except LinkFailure as error:
                raise _as_agent_failure("link", error) from error
        if attacked(self._condition):
            try:
                self._need_attacker().take(str(self._cell.cell_id))
            except AttackFailure as error:
                raise _as_agent_failure("attacker", error) from error
            self._attacking = True
        if "telegraf" in without(self._condition):
            self._pause_view()
        rekey = self._condition.get("rekey")
        if isinstance(rekey, dict):
            schedule = {key: value for key, value in rekey.items() if value is not None}
            self._agent_event(self._pair.drone, "rekey_schedule", schedule)
            self._journal.event("rekey_schedule", **schedule)
        policy = self._condition.get("policy")
        if isinstance(policy, dict):
            self._agent_event(self._pair.drone, "policy", {"policy": policy})
            self._journal.event("policy", **policy)

    def _pause_view(self) -> None:
        """Telegraf and its database stand still until `heal`; the samplers keep their lines meanwhile."""
        project = self._need_project("`without: [telegraf]` has nothing to pause")
        for service in VIEW:
            self._view.append(Pause(container_of(project, service), _VIEW_LIMIT_S))
        for pause in self._view:
            pause.begun()
        self._journal.event("view_paused", services=list(VIEW))

    def _need_project(self, what: str) -> str:
        if self._project is None:
            raise LabError(
                "no-containers", what, "this lab's hosts are no containers", "run it in the container lab"
            )
        return self._project

    def _take_link(self) -> None:
        link, cell = self._need_link(), self._cell
        block = self._condition.get("link")
        block = block if isinstance(block, dict) else {}
        up, down = Side.parse(block.get("up")), Side.parse(block.get("down"))
        owner = str(cell.cell_id)
        link.take(owner, up, down, cell.seed, self._traces())
        chosen: Json = {"up": up.as_dict(), "down": down.as_dict()}
        self._document = {
            "schema_version": SCHEMA_VERSION,
            "cell_id": owner,
            "seed": cell.seed,
            "set": chosen,
            "netem_in_kernel": link.hello()["netem"],
            "probes": None,
            "router": None,
            "lapsed": None,
        }
        if (probe := block.get("probe")) is not None:
            self._journal.event("window_start", window=PROBE_WINDOW)
            self._document["probes"] = probe_link(link.connection, up, down, ProbeSettings(**probe))
            self._journal.event("window_end", window=PROBE_WINDOW)
            # anew, so that the fate of the cell's own packets does not depend on the probes before them
            link.take(owner, up, down, cell.seed)
        self._journal.event("link_set", **chosen)
        self._write()

    def _traces(self) -> dict[str, bytes]:
        """Digest → file of the traces that the condition names, as the run keeps them. Raises LinkFailure."""
        wanted = {str(block["sha256"]) for block in traces_of(self._condition).values()}
        if not wanted:
            return {}
        if self._folder is None:
            raise LinkFailure(
                "no-trace", "the cell has no folder", "its run keeps the traces", "./pqlab resume"
            )
        files = {sha256: trace_path(data_of(self._folder), sha256) for sha256 in sorted(wanted)}
        try:
            return {sha256: file.read_bytes() for sha256, file in files.items()}
        except OSError as error:
            raise LinkFailure(
                "no-trace",
                f"the run has lost a trace of condition `{self._condition['name']}`",
                str(error.strerror),
                "run the scenario anew: ./pqlab run",
            ) from error

    # ------------------------------------------------------------------ during

    @contextmanager
    def during(self) -> Iterator[None]:
        """The session: events at their times, in a thread and on connections of their own."""
        others = [event for event in rows_of(self._condition, "events", []) if event["kind"] != "attack"]
        events = [*others, *attack_events(self._condition)]
        events.sort(key=lambda event: number_of(event, "at_s"))
        if events:
            begin_s = self._clock.monotonic_s()
            self._thread = threading.Thread(
                target=self._run, args=(events, begin_s), name="timeline", daemon=True
            )
            self._thread.start()
        try:
            yield
        finally:
            self._end_thread()

    def _run(self, events: list[Json], begin_s: float) -> None:
        agents: dict[str, Agent] = {}
        try:
            for event in events:
                while (left_s := begin_s + number_of(event, "at_s") - self._clock.monotonic_s()) > 0:
                    if self._stop.is_set():
                        self._journal.event(
                            "error", reason=f"{event['kind']} at {event['at_s']} s: window over"
                        )
                        return
                    self._clock.sleep(min(left_s, _STEP_S))
                self._fire(event, agents)
        finally:
            for agent in agents.values():
                agent.close()

    def _fire(self, event: Json, agents: dict[str, Agent]) -> None:
        kind = str(event["kind"])
        told = {key: value for key, value in event.items() if value is not None and key != "kind"}
        try:
            result = self._handler(kind)(event, agents)
        except (AgentFailure, LabError) as error:
            name = "timed_event" if kind in _MAY_FAIL else "error"
            self._journal.event(name, timed=kind, ok=False, reason=str(error), code=error.code, **told)
            return
        self._journal.event(
            "timed_event", timed=kind, ok=True, **told, **({"result": result} if result else {})
        )
        if kind == "peer_kill":
            try:
                self._await_return(str(event["role"]), self._clock.monotonic_s(), agents)
            except (AgentFailure, LabError) as error:
                self._journal.event("error", timed=kind, reason=str(error), code=error.code, **told)

    def _handler(self, kind: str) -> Callable[[Json, dict[str, Agent]], Json]:
        if kind in _HANDLED_BY_AGENT:
            return self._at_agent
        handlers: dict[str, Callable[[Json, dict[str, Agent]], Json]] = {
            "link": self._change_link,
            "partition": self._change_link,
            "peer_kill": self._peer_kill,
            "disk_full": self._disk_full,
            "attack": self._begin_attack,
            "ground_pause": self._ground_pause,
            CYCLE: lambda event, _: power_cycle(self._place, event),
            AGENT_CANARY: self._agent_canary,
        }
        return handlers[kind]

    def _change_link(self, event: Json, agents: dict[str, Agent]) -> Json:
        settings = part_of(event, "link", {})
        up, down = Side.parse(settings.get("up")), Side.parse(settings.get("down"))
        if event["kind"] == "partition":
            up = down = BLOCKED
        self._need_link().change(up, down, number_of(event, "for_s", _LONGEST_S))
        return {}

    def _at_agent(self, event: Json, agents: dict[str, Agent]) -> Json:
        kind = str(event["kind"])
        role = str(event.get("role") or ("gcs" if kind == "request_rekey" else "drone"))
        wanted = {key: event[key] for key in _PASSED_ON if event.get(key) is not None}
        return self._agent_event(self._another(role, agents), kind, wanted)

    def _peer_kill(self, event: Json, agents: dict[str, Agent]) -> Json:
        role = str(event["role"])
        container = container_of(self._need_project("peer_kill has nothing to restart"), role)
        agent = self._another(role, agents)
        words = LastWords(part_of(agent.call("counters"), "counters"))
        words.streams = {
            name: fetch_stream(agent, str(self._cell.cell_id), name).result() for name in _LAST_STREAMS
        }
        self._killed[role] = words
        # Its account of processor time goes with it: what it used up to here would else be a neighbour's.
        self._neighbours.reading()
        self._restarts.append(Restart(container))
        return {}

    def _await_return(self, role: str, killed_s: float, agents: dict[str, Agent]) -> None:
        """Until the killed end answers, has its orders again and a session carries packets: the drone dials
        anew, a ground station is dialled by the drone, which has noticed the silence. Writes both times down.
        Raises LabError after RETURN_S."""
        agent, drone = self._another(role, agents), self._another("drone", agents)
        until_s = killed_s + RETURN_S
        self._poll(lambda: agent.call("counters")["state"] == "idle", until_s, f"the {role}'s agent")
        agent_s = self._clock.monotonic_s()
        before = _completed(drone)
        agent.call("prepare", self._orders)
        agent.call("start", {"cell_id": self._cell.cell_id})
        if role == "drone":
            left_s = max(1.0, until_s - self._clock.monotonic_s())
            block: Json = {"count": 1, "min_count": 1, "max_s": left_s}
            if whole_of(self._agent_event(agent, "handshake_block", block), "completed") == 0:
                raise _no_return(f"a session of the {role}")
        else:
            self._poll(
                lambda: _completed(drone) > before,
                until_s,
                f"a session with the {role}",
            )
        session_s = self._clock.monotonic_s()
        self._journal.event(
            "recovered",
            timed="peer_kill",
            role=role,
            agent_ms=round(1e3 * (agent_s - killed_s), 3),
            recovery_ms=round(1e3 * (session_s - killed_s), 3),
        )
        # its traffic source has run on without it, and would into the next cell: a window's end stops it
        for kind in ("traffic_open", "traffic_close"):
            self._agent_event(agent, kind, {"window": RECOVERED_WINDOW})

    def _poll(self, ready: Callable[[], bool], until_s: float, what: str) -> None:
        while True:
            why = ""
            try:
                if ready():
                    return
            except AgentFailure as error:
                if not error.lost:
                    raise
                why = str(error)
            if self._clock.monotonic_s() > until_s:
                raise _no_return(what, why)
            self._clock.sleep(_STEP_S)

    def _begin_attack(self, event: Json, agents: dict[str, Agent]) -> Json:
        try:
            episode = episode_of(event, self._cell.seed)
        except SettingsError as error:
            raise AttackFailure("attack-settings", str(error), "the scenario says so", error.hint) from error
        return {"episode": self._need_attacker().start(episode)["episode"]}

    def _agent_canary(self, event: Json, agents: dict[str, Agent]) -> Json:
        """The drone's agent sends the known attack to itself; its account is the ground truth."""
        wanted = {key: event[key] for key in ("rate_pps", "for_s")}
        account = self._agent_event(self._another("drone", agents), AGENT_CANARY, wanted)
        episode = Episode.parse(
            {"kind": "bad-header", "seed": self._cell.seed, "size_bytes": account.pop("size_bytes"), **wanted}
        )
        self._canary = {"episode": 1, **episode.as_dict(), "benign": episode.benign, **account}
        return {"sent_count": account["sent_count"]}

    def _ground_pause(self, event: Json, agents: dict[str, Agent]) -> Json:
        """The ground's own MAVLink program stands still; the tunnel does not."""
        project = self._need_project("ground_pause has nothing to pause")
        self._restarts.append(Pause(container_of(project, "mavproxy-gcs"), number_of(event, "for_s")))
        return {}

    def _disk_full(self, event: Json, agents: dict[str, Agent]) -> Json:
        if self._folder is None:
            raise LabError("no-folder", "disk_full has no folder to fill", "the cell writes none", "")
        self._full.append(DiskFull(self._folder, number_of(event, "for_s", 10.0)))
        return {}

    # ------------------------------------------------------------------ heal

    def heal(self) -> list[Json]:
        """Undo what still stands; returns what that was. A step that fails is written down."""
        self._end_thread()
        undone: list[Json] = []
        # the disk first: what comes after it writes
        steps = (
            self._heal_disk,
            self._keep_canary,
            self._heal_attack,
            self._heal_link,
            self._heal_restarts,
            self._heal_view,
        )
        for step in steps:
            try:
                undone += step()
            except LabError as error:
                self._journal.event("error", reason=str(error), code=error.code, hint=error.hint)
        for row in undone:
            self._journal.event("healed", **row)
        return undone

    def _heal_disk(self) -> list[Json]:
        done: list[Json] = []
        while self._full:
            if self._full.pop().end():
                done.append({"what": "disk_full"})
        return done

    def _keep_canary(self) -> list[Json]:
        """What the agent sent to itself is written down; there is nothing to undo."""
        sent, self._canary = self._canary, None
        if sent is not None and self._folder is not None:
            lines = truth_lines(str(self._cell.cell_id), [sent])
            write_atomic(self._folder / "attack.ndjson", "".join(f"{line}\n" for line in lines))
        return []

    def _heal_attack(self) -> list[Json]:
        """Whatever is still sent is stopped; what was sent is written down before the attacker forgets it."""
        attack = self._attack
        if attack is None or not self._attacking:
            return []
        self._attacking = False
        lapsed = attack.lapsed
        try:
            attack.stop()
            truths = [
                attack.truth(episode) for episode in range(1, len(rows_of(attack.hello(), "episodes")) + 1)
            ]
        finally:
            attack.release()
        if self._folder is not None:
            lines = truth_lines(str(self._cell.cell_id), truths)
            write_atomic(self._folder / "attack.ndjson", "".join(f"{line}\n" for line in lines))
        if lapsed is not None:
            self._journal.event(
                "error", reason=f"the attacker was lost within the cell: {lapsed}", code="attack-lapsed"
            )
        return [{"what": "attack", "episodes": len(truths)}]

    def _heal_link(self) -> list[Json]:
        link, document = self._link, self._document
        if link is None or document is None:
            return []
        self._document = None
        lapsed = link.lapsed
        log: list[list[object]] | None = None
        try:
            state = link.state()
            if traces_of(self._condition):
                log = link.log(whole_of(state, "logged"))
        finally:
            link.release()
        document["lapsed"] = lapsed
        router: Json = {
            **part_of(state, "counts"),
            "guests": state["guests"],
            "strangers": state["strangers"],
            "overflow": state["overflow"],
        }
        document["router"] = router
        if log is not None:
            router.update(logged=len(log), unlogged=state["unlogged"])
        if self._folder is not None:
            write_json(self._folder / "link.json", document)
            if log is not None:
                write_atomic(self._folder / LINK_LEDGER, ledger_text(log))
        if lapsed is not None or state["owner"] != document["cell_id"]:
            self._journal.event(
                "error", reason=f"the link lapsed within the cell: {lapsed}", code="link-lapsed"
            )
        return [{"what": "link"}]

    def _heal_restarts(self) -> list[Json]:
        done: list[Json] = []
        while self._restarts:
            fault = self._restarts.pop()
            fault.wait()
            done.append({"what": fault.what})
        return done

    def _heal_view(self) -> list[Json]:
        view, self._view = self._view, []
        for pause in view:
            pause.end()
        return [{"what": "view_pause"}] if view else []

    # ------------------------------------------------------------------ parts

    def _end_thread(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=_SLACK_S + RETURN_S)
            self._thread = None

    def _another(self, role: str, agents: dict[str, Agent]) -> Agent:
        """A connection of this thread's own, kept in `agents`."""
        if role not in agents:
            agents[role] = self._pair.agents[role].another()
        return agents[role]

    def _agent_event(self, agent: Agent, kind: str, details: Json) -> Json:
        limit_s = number_of(details, "for_s", 0.0) + _SLACK_S
        request = {"cell_id": self._cell.cell_id, "kind": kind, **details}
        return agent.call("event", request, timeout_s=limit_s)

    def _need_link(self) -> LinkControl:
        if self._link is None:
            raise LinkFailure(
                "no-link",
                f"condition `{self._condition['name']}` needs the link router",
                "there is none here",
                "./compose/lab.sh profile link",
            )
        return self._link

    def _need_attacker(self) -> AttackControl:
        if self._attack is None:
            raise AttackFailure(
                "no-attacker",
                f"condition `{self._condition['name']}` needs the attacker",
                "there is none here: it runs in the container lab alone",
                "./compose/lab.sh profile attacker",
            )
        return self._attack

    def _write(self) -> None:
        if self._folder is not None and self._document is not None:
            write_json(self._folder / "link.json", self._document)


def _no_return(what: str, why: str = "") -> LabError:
    return LabError(
        "no-return",
        f"{what} did not come back within {RETURN_S:g} s of the kill",
        why,
        f"docker compose -p {lab_number().project} ps -a, and the logs of that container",
    )


def _as_agent_failure(role: str, error: LabError) -> AgentFailure:
    """The engine treats router and attacker as it treats an agent: this cell fails, the next is tried."""
    return AgentFailure(role, RpcError(f"{error.what}: {error.why}", code=error.code, hint=error.hint))


def _completed(drone: Agent) -> int:
    """Handshakes that the drone's agent has completed. Raises AgentFailure."""
    return whole_of(part_of(drone.call("counters"), "counters"), "hs_completed", 0)
