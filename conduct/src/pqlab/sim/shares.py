"""A campaign on several simulated pairs of hosts: each share is a task whose result is a sealed bundle.

The bundle is a pure function of scenario, machine and build: its run id follows from the task's key, and the
command that it records is the one that makes this share again. So the same bytes come from this process and
from any worker.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pqbase.documents import Json
from pqbase.tasks import Ingredients, Plain, Runner, Say, Task, carry_out
from pqevidence.bundle.archive import archive
from pqevidence.bundle.attribution import CONFIG
from pqevidence.bundle.bag import TAGMANIFEST
from pqevidence.bundle.unpack import unpack
from pqevidence.errors import LabError, UsageError
from pqevidence.paths import project_root, shown
from pqevidence.plan import Cell
from pqevidence.scenario.load import load_effective
from pqevidence.scenario.model import Scenario
from pqevidence.share import Share
from pqlab.campaign.ring import SIM
from pqlab.inventory import AgentAddress, Inventory
from pqlab.sim.machine import SimMachine
from pqlab.sim.run import carry_out as carry_out_sim
from pqlab.sim.run import stage

MADE_OF = Ingredients(
    (
        "pqattack",
        "pqbase",
        "pqdetect",
        "pqevidence",
        "pqlab",
        "pqlink",
        "pqsitl",
        "pqspec",
        "pqtelemetry",
        "pqtunnel",
    ),
    ("PyYAML", "jsonschema", "jinja2", "markupsafe", "xxhash", "zstandard"),
)
#: within the results folder: what is done of a campaign that is not
KEPT = ".tasks"


@dataclass(frozen=True)
class SimulatedPairs:
    """What is asked for. seeds: the machines, one a pair; None is the one without a seed, alone. command:
    what runs one share, its own options apart."""

    scenario: Scenario
    inventory: Inventory
    seeds: tuple[int | None, ...]
    command: tuple[str, ...]
    strict: bool = False

    def shares(self) -> list[Share | None]:
        """Which share each machine has. Raises UsageError where there are more machines than blocks."""
        of, blocks = len(self.seeds), self.scenario.repetitions
        if of == 1:
            return [None]
        if of > blocks:
            raise UsageError(
                "many-shares",
                f"{of} simulated machines for {blocks} block{'s' if blocks > 1 else ''}",
                "a machine carries out whole blocks, and a block is one repetition of everything",
                f"--reps {of}, or fewer machines",
            )
        return [Share(number, of, f"sim-{seed}") for number, seed in enumerate(self.seeds, 1)]

    def tasks(self) -> list[Task]:
        """A task a share. Raises UsageError for what the simulation cannot carry."""
        scenario, _ = stage(self.scenario, self.inventory)
        file = Path(shown(self.inventory.file))
        ends: Plain = {role: [one.name, one.host, one.port] for role, one in self.inventory.agents.items()}
        named: Plain = {"file": file.name if file.is_absolute() else file.as_posix(), "agents": ends}
        return [
            self._task((scenario.effective_yaml(), named, _attribution()), seed, share)
            for seed, share in zip(self.seeds, self.shares(), strict=True)
        ]

    def _task(self, common: tuple[Plain, ...], seed: int | None, share: Share | None) -> Task:
        words = list(self.command)
        if share is not None:
            words += ["--share", f"{share.number}/{share.of}", "--pair", share.pair]
        if seed is not None:
            words += ["--host-seed", str(seed)]
        whole = (share.number, share.of, share.pair) if share is not None else None
        label = "the campaign" if share is None else f"share {share.number}/{share.of} on {share.pair}"
        task = Task("pqlab.sim.shares:sealed", (*common, seed, whole, words, self.strict), label)
        token = task.key(MADE_OF.build())[:6]
        return Task(task.function, (*task.inputs, token), label)


def sealed(
    scenario: str,
    inventory: Mapping[str, object],
    attribution: str | None,
    seed: int | None,
    share: Sequence[int | str] | None,
    command: list[str],
    strict: bool,
    token: str,
) -> bytes:
    """The task: the archive of the bundle of one share. Raises LabError."""
    if attribution != _attribution():
        raise LabError(
            "other-attribution",
            f"{CONFIG} beside the worker is another than here",
            "it goes into every bundle",
            "give workers the same tree",
        )
    with tempfile.TemporaryDirectory(prefix="pqlab-sim-") as name:
        folder = Path(name)
        (folder / "scenario.yml").write_text(scenario, encoding="utf-8")
        result = carry_out_sim(
            load_effective(folder / "scenario.yml"),
            _inventory(inventory),
            results=folder / "results",
            reporter=_Silent(),
            token=lambda: token,
            command=command,
            strict=strict,
            share=Share(int(share[0]), int(share[1]), str(share[2])) if share is not None else None,
            machine=SimMachine(seed),
        )
        return archive(result.bundle, folder / "bundle.tar.zst").file.read_bytes()


def bundles(asked: SimulatedPairs, results: Path, runner: Runner, say: Say) -> Iterator[Path]:
    """Each machine's bundle, in the order of the shares, unpacked into `results`. Raises LabError."""
    for made in carry_out(asked.tasks(), MADE_OF, runner, say, results / KEPT):
        yield _placed(made, results)


def _placed(made: bytes, results: Path) -> Path:
    """The bundle of an archive in its place. One that lies there must be the same."""
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".sim-", dir=results) as name:
        bundle = unpack(io.BytesIO(made), Path(name)).bundle
        target = results / bundle.name
        if not target.exists():
            return bundle.rename(target)
        if _sha512(target) != _sha512(bundle):
            raise LabError(
                "exists",
                f"{shown(target)} is there already, and is another bundle",
                "it has the run id of this one, which its content gives",
                "move it away, or name another folder with --out",
            )
        return target


def _sha512(bundle: Path) -> str | None:
    tags = bundle / TAGMANIFEST
    return hashlib.sha512(tags.read_bytes()).hexdigest() if tags.is_file() else None


def _attribution() -> str | None:
    file = project_root() / CONFIG
    return file.read_text(encoding="utf-8") if file.is_file() else None


def _inventory(told: Mapping[str, object]) -> Inventory:
    ends = told["agents"]
    assert isinstance(ends, Mapping)
    agents = {role: AgentAddress(role, *one) for role, one in ends.items()}
    return Inventory(Path(str(told["file"])), agents, SIM, Path("keys"), None, "pqlab", None)


class _Silent:
    """A worker's terminal is nobody's."""

    def begin(self, total: int, done: int, eta_s: float | None) -> None:
        return

    def cell_begins(self, cell: Cell, attempt: int, why: str | None = None) -> None:
        return

    def cell_ends(self, position: int, record: Json, eta_s: float | None) -> None:
        return

    def note(self, text: str) -> None:
        return

    def end(self) -> None:
        return
