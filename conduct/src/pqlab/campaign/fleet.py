"""The fleet part of a cell: a ground station and a farm of drones in containers of their own, on air.

The farm (tunnel/link/examples/fleet) takes orders on its standard input, keeps what happens until the end,
and ends with that input; the station lives in the farm's process namespace and ends with it. So a controller
that is killed leaves neither. Keys are made in memory that both share and that is gone with them.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn, Protocol

from pqbase.documents import Json, number_of, part_of, whole_of
from pqevidence.errors import LabError
from pqevidence.paths import project_root
from pqevidence.record.fleet import DOCUMENT, FILES, SCHEMA_VERSION, STATUS_FILE
from pqevidence.record.fleet import fleet_of as asked_of
from pqevidence.scenario.model import Scenario
from pqlab.campaign.command import ended
from pqlab.campaign.store import write_atomic, write_json
from pqlab.campaign.supervisor import Engine, run_docker
from pqlab.lab_number import lab_number

IMAGE: Final = "pqlab/fleet:dev"
WINDOW: Final = "fleet"
_FARM_HOST, _STATION_HOST = 80, 81
#: beyond what an order itself may take
_SLACK_S: Final = 30.0
#: keys of every signature scheme, and of a thousand drones
_READY_S: Final = 120.0
_START_S: Final = 20.0
_CLEAR_S: Final = 20.0
#: the programs and liboqs, by one compiler on a slow machine
_BUILD_S: Final = 3600.0
BUILD: Final = "./images/build.sh fleet"
#: what the killed station's last packets take to be read
_SETTLE_S: Final = 0.05
_LOOK_S: Final = 0.1
#: agents end a cell after a minute without a word
_ALIVE_EVERY_S: Final = 10.0
#: of one load, drones that send; those above the fleet's size are left out
RUNGS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
#: share of a load that must arrive for more to be tried
CARRIED: Final = 0.99
_LIMITS: Final = (
    *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true"),
    *("--pids-limit", "4096", "--memory", "4g", "--ulimit", "nofile=8192:8192"),
    *("--tmpfs", "/tmp:mode=1777,size=16m"),
)


class FleetFailure(LabError):
    """The engine, the farm or the station did not do its part."""


@dataclass(frozen=True)
class Flown:
    """What a cell gives its fleet. alive: called often, so that the lab's own ends stay awake."""

    settings: Json
    suite_id: str
    seed: int
    folder: Path
    alive: Callable[[], None]


class Fleet(Protocol):
    """Carries out the fleet part of a cell."""

    def fly(self, flown: Flown) -> None:
        """All of it, to its raw files. Raises FleetFailure; nothing of it runs on then."""
        ...


class _Nowhere:
    def fly(self, flown: Flown) -> None:
        del flown
        self.refuse()

    def refuse(self) -> NoReturn:
        raise FleetFailure(
            "fleet-engine",
            "a fleet needs the container lab",
            "farm and station are containers on its air",
            "run it with --inventory ansible/inventories/lab.ini",
        )


NO_FLEET: Final = _Nowhere()


def fleet_of(project: str | None) -> Fleet:
    """Of this lab; one that refuses where the hosts are no containers."""
    return NO_FLEET if project is None else ComposeFleet(project)


def require_image(scenario: Scenario, project: str | None, note: Callable[[str], None]) -> None:
    """Build the image that conditions with a fleet need, where it is not there or not this checkout's. Raises
    FleetFailure, and UsageError for hosts that are no containers."""
    if not any(map(asked_of, scenario.conditions)):
        return
    if project is None:
        NO_FLEET.refuse()
    script = project_root() / "images" / "build.sh"
    note("the fleet's image is built where it is not there (the first time some minutes)")
    try:
        done = ended([str(script), "fleet"], _BUILD_S, as_one=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FleetFailure("fleet-engine", "the fleet's image is not built", str(error), BUILD) from error
    if done.returncode:
        last = " ".join(done.stdout.strip().splitlines()[-3:])
        raise FleetFailure("fleet-engine", "the fleet's image is not built", last, BUILD)


class Farm:
    """The farm's process, by its standard streams."""

    def __init__(self, command: list[str], alive: Callable[[], None]) -> None:
        self._alive = alive
        self._heard_s = time.monotonic()
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        except OSError as error:
            raise FleetFailure(
                "fleet-engine", "the farm does not start", str(error), "make lab-status"
            ) from error
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._complaints: list[str] = []
        self._ears = [
            threading.Thread(target=job, name="fleet-farm", daemon=True)
            for job in (self._listen, self._overhear)
        ]
        for ear in self._ears:
            ear.start()

    def order(self, line: str, limit_s: float) -> list[str]:
        """What the farm says until it is done. Raises FleetFailure."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except OSError:
            self._lines.put(None)  # its last words, if any, are already there
        return self.until("done", line.split()[0], limit_s)

    def until(self, word: str, order: str, limit_s: float) -> list[str]:
        """Every line before `word`. Raises FleetFailure where the farm ends, refuses or is silent."""
        told: list[str] = []
        until_s = time.monotonic() + limit_s + _SLACK_S
        while True:
            if time.monotonic() - self._heard_s > _ALIVE_EVERY_S:
                self._heard_s = time.monotonic()
                self._alive()
            try:
                line = self._lines.get(timeout=1.0)
            except queue.Empty:
                if time.monotonic() > until_s:
                    raise FleetFailure(
                        "fleet-farm",
                        f"the farm did not carry out `{order}`",
                        f"waited {limit_s + _SLACK_S:.0f} s",
                        "docker logs of the farm's container, while it runs",
                    ) from None
                continue
            if line is None:
                raise self._ended(order)
            if line == word:
                return told
            if line.startswith("error: "):
                raise FleetFailure(
                    "fleet-station" if "station" in line else "fleet-farm",
                    f"the farm gave up at `{order}`",
                    line.removeprefix("error: "),
                    BUILD,
                )
            told.append(line)

    def _ended(self, order: str) -> FleetFailure:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5.0)
        for ear in self._ears:
            ear.join(timeout=2.0)  # its last words may still be on their way
        code = self._process.poll()
        last = " ".join(self._complaints[-3:]) or "it said nothing"
        return FleetFailure(
            "fleet-farm",
            f"the farm died at `{order}`",
            f"code {code}: {last}",
            BUILD,
        )

    def close(self) -> None:
        """End its input, and so the farm."""
        for stream in (self._process.stdin,):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=5.0)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _overhear(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._complaints = [*self._complaints[-9:], line.strip()]


@dataclass
class ComposeFleet:
    """On the air of one compose project. docker, start: the engine's client, or a test's own."""

    project: str
    docker: Engine = run_docker
    start: Callable[[list[str], Callable[[], None]], Farm] = Farm
    _stations: int = field(default=0, init=False)

    def fly(self, flown: Flown) -> None:
        """As `Fleet.fly`."""
        moments: dict[str, Json] = {"stages": {}}
        with self._farm(flown) as farm:
            self._station()
            self._stages(farm, flown, moments)
            moments["end"] = clocks()
            rows = farm.order("end", 60.0)
        write_rows(flown, moments, rows, self._builds)

    # ------------------------------------------------------------------ containers

    def _name(self, what: str) -> str:
        return f"{self.project}-fleet-{what}"

    def _address(self, host: int) -> str:
        number = lab_number().number
        return f"198.18.{'' if number == 1 else number}2.{host}"

    def _container(self, name: str, host: int) -> list[str]:
        volume = f"{self._name('keys')}:/fleet"
        place = ("--network", f"{self.project}_air", "--ip", self._address(host))
        return ["run", "--rm", "--name", self._name(name), *place, *_LIMITS, "-v", volume]

    @contextlib.contextmanager
    def _farm(self, flown: Flown) -> Iterator[Farm]:
        farm: Farm | None = None
        try:
            with _as_fleet_failure():
                self._clear()
                self._builds = self._look()
                memory = ("type=tmpfs", "device=tmpfs", "o=size=64m,mode=0700,uid=10001,gid=10001")
                options = [word for option in memory for word in ("--opt", option)]
                self.docker("volume", "create", *options, self._name("keys"))
            words = [
                "/fleet/keys",
                str(flown.settings["drones"]),
                flown.suite_id,
                self._address(_STATION_HOST),
                self._address(_FARM_HOST),
                str(flown.seed),
            ]
            run = self._container("farm", _FARM_HOST)
            farm = self.start(["docker", run[0], "-i", *run[1:], IMAGE, "pqfarm", *words], flown.alive)
            farm.until("ready", "keys", _READY_S)
            yield farm
        finally:
            if farm is not None:
                farm.close()
            with _as_fleet_failure():
                self._clear()

    def _look(self) -> Json:
        image = json.loads(self.docker("image", "inspect", IMAGE))[0]
        digests = self.docker(
            "run",
            "--rm",
            "--network",
            "none",
            IMAGE,
            "sha256sum",
            "/usr/local/bin/pqlink",
            "/usr/local/bin/pqfarm",
        )
        found = [line.split() for line in digests.splitlines()]
        return {"image": image["Id"], **{f"{Path(path).name}_sha256": digest for digest, path in found}}

    def _clear(self) -> None:
        """Nothing of an earlier fleet is left. A container that ends by itself (--rm) may be on its way out:
        until it is gone the engine refuses to remove it, and the volume of its keys. Raises LabError after
        _CLEAR_S."""
        filters = ("--filter", f"name=^{self._name('')}")
        until_s = time.monotonic() + _CLEAR_S
        while True:
            try:
                if left := self.docker("ps", "-aq", *filters).split():
                    self.docker("rm", "-f", *left)
                if self.docker("volume", "ls", "-q", *filters).split():
                    self.docker("volume", "rm", "-f", self._name("keys"))
                return
            except LabError:
                if time.monotonic() > until_s:
                    raise
                time.sleep(_LOOK_S)

    def _station(self) -> None:
        """A fresh station; the one before is gone."""
        self._stations += 1
        shared = ("--pid", f"container:{self._name('farm')}")
        run = self._container(f"station-{self._stations}", _STATION_HOST)
        command = [*run[:1], "-d", *run[1:], *shared, IMAGE, "pqlink", "up", "/fleet/keys/gcs.toml"]
        until_s = time.monotonic() + _START_S
        while True:
            try:
                self.docker(*command)
                return
            except LabError as error:
                # the engine lets go of the killed one's address a moment after the kill
                if "ddress already in use" not in error.why or time.monotonic() > until_s:
                    raise FleetFailure(
                        "fleet-station", "the station does not start", error.why, "make lab-status"
                    ) from error
                with contextlib.suppress(LabError):
                    self.docker("rm", "-f", self._name(f"station-{self._stations}"))
                time.sleep(_LOOK_S)

    # ------------------------------------------------------------------ stages

    def _stages(self, farm: Farm, flown: Flown, moments: dict[str, Json]) -> None:
        said, limit_s = flown.settings, number_of(flown.settings, "limit_s")
        drones, limit_ms = whole_of(said, "drones"), round(1000 * limit_s)
        count = whole_of(said, "exchange_count")

        moments["begin"] = clocks()
        farm.order(f"await {round(1000 * _START_S)}", _START_S)
        farm.order(f"join {round(1e6 * number_of(said, 'arrive_s'))} {limit_ms}", limit_s)
        farm.order("status join", limit_s)
        farm.order("wake", 30.0)
        farm.order(f"exchange join {count}", limit_s)
        window = f"{round(1000 * number_of(said, 'window_s'))} {said['probe_hz']}"
        farm.order(f"window quiet {window} 0 {limit_ms}", limit_s)
        farm.order(f"window rekeying {window} {drones} {limit_ms}", limit_s)
        farm.order("status rekeying", limit_s)

        moments["stages"]["restart"] = {"gone_ns": time.monotonic_ns()}
        with _as_fleet_failure():
            self.docker("kill", "--signal", "KILL", self._name(f"station-{self._stations}"))
        time.sleep(_SETTLE_S)
        farm.order("stage restart", limit_s)
        self._station()
        farm.order(f"await {round(1000 * _START_S)}", _START_S)
        farm.order(f"back {limit_ms}", limit_s)
        farm.order(f"exchange restart {count}", limit_s)
        farm.order("status restart", limit_s)

        at = moments["stages"]["outage"] = {"gone_ns": time.monotonic_ns()}
        air, station = f"{self.project}_air", self._name(f"station-{self._stations}")
        with _as_fleet_failure():
            self.docker("network", "disconnect", air, station)
            time.sleep(_SETTLE_S)
            farm.order("stage outage", limit_s)
            time.sleep(number_of(said, "outage_s"))
            farm.order("mark", limit_s)
            at["healed_ns"] = time.monotonic_ns()
            self.docker("network", "connect", "--ip", self._address(_STATION_HOST), air, station)
        at["healed_by_ns"] = time.monotonic_ns()
        farm.order(f"back {limit_ms}", limit_s)
        farm.order(f"exchange outage {count}", limit_s)
        farm.order("status outage", limit_s)
        self._loads(farm, flown)
        farm.order("status load", limit_s)

    def _loads(self, farm: Farm, flown: Flown) -> None:
        """More drones at their full rate, until what is sent does not arrive."""
        said = flown.settings
        drones, for_s = whole_of(said, "drones"), number_of(said, "load_s")
        rungs = [rung for rung in RUNGS if rung < drones] + [drones]
        # the fleet at a tenth and below says nothing that a smaller one does not
        for rung in rungs[-3:] if drones < 100 else [r for r in rungs if r >= 10]:
            name = f"load-{rung}"
            told = farm.order(
                f"load {name} {rung} {said['rate_hz']} {round(1000 * for_s)} {said['size_bytes']}", for_s
            )
            offered, _, arrived = (int(word) for word in told[-1].split()[1:4])
            if arrived < CARRIED * offered:
                return


def clocks() -> Json:
    """Both clocks of the controller's machine, which is the fleet's, at one moment."""
    return {"realtime_ns": time.time_ns(), "monotonic_ns": time.monotonic_ns()}


def write_rows(flown: Flown, moments: dict[str, Json], rows: list[str], builds: Json) -> None:
    """The farm's rows as the raw files of the cell: a file a kind, the rest in one document."""
    tables: dict[str, list[str]] = {kind: [header] for kind, (_, header) in FILES.items()}
    statuses: list[Json] = []
    single: dict[str, list[str]] = {}
    for row in rows:
        kind, _, rest = row.partition(",")
        if kind in tables:
            tables[kind].append(rest)
        elif kind == "status":
            name, t_ns, told = rest.split(",", 2)
            statuses.append({"stage": name, "t_ns": int(t_ns), "told": json.loads(told)})
        else:
            single.setdefault(kind, []).append(rest)
    stages = {name: part_of(moments["stages"], name) for name in moments["stages"]}
    for rest in single.get("stage", []):
        name, t_ns = rest.split(",")
        stages.setdefault(name, {})["begin_ns"] = int(t_ns)
    for rest in single.get("waited", []):
        name, t_ns = rest.split(",")
        stages.setdefault(name, {})["waited_ns"] = int(t_ns)
    arrivals = [[int(word) for word in rest.split(",")] for rest in single["arrivals"]]
    crossed, dropped = (int(word) for word in single["farm"][0].split(","))
    write_json(
        flown.folder / DOCUMENT,
        {
            "schema_version": SCHEMA_VERSION,
            "settings": flown.settings,
            "seed": flown.seed,
            "builds": builds,
            "clocks": {"begin": moments["begin"], "end": moments["end"]},
            "stages": stages,
            "arrivals": {
                name: {"begin_ns": begin_ns, "spread_us": spread_us}
                for name, (begin_ns, spread_us) in zip(("join", "quiet", "rekeying"), arrivals, strict=True)
            },
            "listening": [
                dict(zip(("t_ns", "process"), map(int, rest.split(",")), strict=True))
                for rest in single["listening"]
            ],
            "wake_ns": [int(word) for word in single["wake"][0].split()],
            "farm": {"crossed_count": crossed, "dropped_count": dropped},
        },
    )
    for kind, (name, _) in FILES.items():
        write_atomic(flown.folder / name, "".join(f"{line}\n" for line in tables[kind]))
    text = "".join(json.dumps(status, separators=(",", ":")) + "\n" for status in statuses)
    write_atomic(flown.folder / STATUS_FILE, text)


@contextlib.contextmanager
def _as_fleet_failure() -> Iterator[None]:
    try:
        yield
    except FleetFailure:
        raise
    except LabError as error:
        raise FleetFailure("fleet-engine", error.what, error.why, error.hint) from error
