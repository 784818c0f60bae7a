"""Every verb is run into every code that `pqlab.cli.codes` lists for it, and gives no other."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import benched_kit
import pytest
import report_bundle
from advise_bundle import make_radio_bundle
from bundle_kit import make_ready, make_sealed
from drone_bins import write_bins
from fake_agent import FakeLab, interrupt, once
from measures.attack.bad_bundles import attack_all
from rack_kit import run_share
from test_bench_board import WHOLE
from test_fly_session import Flying
from test_setup import OPTIONS

from pqevidence import errors
from pqevidence.paths import project_root
from pqlab.campaign.heal import Healed
from pqlab.cli import codes
from pqlab.cli.main import VERBS, main
from pqlab.doctor import tuning
from pqlab.doctor.model import Finding, Status

SIM = ["--inventory", str(project_root() / "ansible" / "inventories" / "sim.ini")]
SUITE = "cs-mlkem768-aesgcm-mldsa65"
WHY = ["--reason", "because of a test"]
RADIO = ["--rate-kbps", "1500", "--delay-ms", "30", "--loss-pct", "0"]


@dataclass
class World:
    """A folder of the test's own, and what a session shares: never written to."""

    here: Path
    patch: pytest.MonkeyPatch
    shared: Path
    #: sockets that have to live as long as the test
    held: list[socket.socket] = field(default_factory=list)

    @property
    def sealed(self) -> Path:
        """A simulated bundle of one cell, sealed and whole."""
        return (self.shared / "results" / "latest").resolve()

    @property
    def results(self) -> list[str]:
        return ["--out", str(self.shared / "results")]

    def copy(self, root: Path) -> Path:
        """What may be spoiled."""
        return Path(shutil.copytree(root, self.here / root.name, symlinks=True))

    def spoiled(self) -> Path:
        """The sealed bundle with a plan that is none."""
        root = self.copy(self.sealed)
        (root / "data" / "plan.json").write_text("{", encoding="utf-8")
        return root

    def none(self) -> str:
        return str(self.here / "none")

    def patched(self, verb: str, name: str, function: Callable[..., Any]) -> None:
        self.patch.setattr(importlib.import_module(f"pqlab.cli.{verb}"), name, function)

    def lab(self) -> FakeLab:
        """A lab in memory that `run` and `resume` find in place of the container lab."""
        lab = FakeLab(self.here)

        @contextlib.contextmanager
        def surroundings(args: Any, *_: Any, **__: Any) -> Iterator[Any]:
            yield lab.around(strict=args.strict)

        self.patched("place", "load_inventory", lambda *_: lab.inventory())
        for verb in ("run", "resume"):
            self.patched(verb, "surroundings", surroundings)
        self.patched("run", "at_ring", lambda *_: lab.scenario(2))
        return lab

    def stopped(self) -> tuple[FakeLab, list[str]]:
        """A run of that lab that ended before its second cell, and where it lies."""
        lab = self.lab()
        lab.drone.hooks.append(once("prepare", interrupt, at=2))
        assert main(["run", "smoke"]) in (errors.EXIT_ENVIRONMENT, errors.EXIT_INTERRUPTED)
        return lab, ["--out", str(lab.results)]

    def findings(self, verb: str, status: Status) -> None:
        told = [Finding("thing", status, "seen", "expected", "do this")]
        self.patched(verb, "run_checks" if verb == "doctor" else "_looked_at", lambda *_, **__: told)

    def answers(self) -> list[str]:
        return ["setup", "--json", "--inventory", str(self.here / "my.ini"), *OPTIONS]

    def tuned(self, done: str) -> None:
        row = tuning.Outcome("governor", "sys/x", done, "a", "b")
        for name in ("tune", "untune"):
            self.patch.setattr(tuning, name, lambda *_, **__: [row])

    def healed(self, *, ok: bool) -> None:
        self.patched("heal", "load_every", lambda *_: [FakeLab(self.here).inventory()])
        self.patched("heal", "tls_connector", lambda _inventory: None)
        self.patched("heal", "heal", lambda *_: [Healed("drone", ok, "said", None if ok else "wait")])

    def flying(self, typed: str, *options: str, held: bool = False) -> list[str]:
        """A lab that can be flown in, whose ground end holds a cell or not."""
        flight = Flying(self.here, self.patch)
        self.held.append(flight.server)
        if held:
            flight.lab.gcs.state, flight.lab.gcs.cell_id = "running", "abc"
        self.patch.setattr("sys.stdin", io.StringIO(typed))
        return ["fly", "--udp-port", "0", "--tcp-port", "0", "--out", str(flight.out), *options]

    def bench(self) -> Path:
        benched_kit.performance_tree(self.here / "bench")
        return self.here / "bench"

    def log(self, content: str) -> str:
        (self.here / "serial.log").write_text(content, encoding="utf-8")
        return str(self.here / "serial.log")

    def pair(self) -> list[str]:
        """Two runs that are compared, each of one repetition: nothing can be judged."""
        second = self.shared / "second" / "latest"
        return [str(self.sealed), str(second.resolve())]


Case = Callable[[World], list[str]]


def _unsupported(world: World) -> list[str]:
    lab = world.lab()
    lab.gcs.facts["suites"][SUITE] = {"status": "unsupported", "reason": "no ML-KEM"}
    return ["run", "smoke"]


def _failed(world: World) -> list[str]:
    world.lab().script[0] = ["fail"]
    return ["run", "smoke"]


def _resumed(verdict: str | None) -> Case:
    def case(world: World) -> list[str]:
        lab, out = world.stopped()
        if verdict is not None:
            lab.script[1] = [verdict]
        return ["resume", *out]

    return case


def _sealed_in(world: World, verb: str) -> list[str]:
    return [verb, world.sealed.name, *world.results]


def _stopped_discard(world: World) -> list[str]:
    lab, out = world.stopped()
    (run_id,) = (path.name for path in (lab.results / ".work").iterdir() if (path / "data").is_dir())
    return ["discard", run_id, *out]


def _unreadable_table(world: World) -> list[str]:
    root = world.copy(make_radio_bundle(world.here / "made" / "b", count=2))
    (root / "data" / "plan.json").write_text('{"cells": [{}]}', encoding="utf-8")
    return ["advise", str(root), *RADIO]


def _radios(world: World, *words: str) -> list[str]:
    return ["advise", str(make_radio_bundle(world.here / "radios")), *words]


def _with_a_broken_one(world: World) -> list[str]:
    root = world.copy(world.sealed.parent)
    (root / world.sealed.name / "data" / "plan.json").write_text("{", encoding="utf-8")
    return ["index", str(root)]


def _with_an_older_one(world: World) -> list[str]:
    """A bundle of an earlier version never verifies without a warning."""
    older = Path(__file__).parent / "bundles" / "bundle-0.1.0.tar.zst"
    shutil.copy(older, world.here)
    return ["index", str(world.here)]


def _altered_claim(world: World) -> list[str]:
    root = report_bundle.make_bundle(world.here / "run", repetitions=3)
    page = root / "data" / "report.html"
    importlib.import_module("pqevidence.pages").render(root)
    text = page.read_text(encoding="utf-8")
    said = '<p class="say">'
    assert said in text
    page.write_text(text.replace(said, said + "No ", 1), encoding="utf-8")
    return ["audit", str(root)]


def _packed(world: World) -> Path:
    file = world.here / "run.tar.zst"
    assert main(["archive", str(world.sealed), "--out", str(file)]) == 0
    return file


def _watched(world: World, *, spoil: bool) -> list[str]:
    root = make_sealed(world.here / "made")
    attack_all(root, lambda rows: None)
    for cell in (root / "data" / "cells").iterdir():
        write_bins(cell)
    if spoil:
        (root / "data" / "plan.json").write_text("{", encoding="utf-8")
    return ["recording", str(root), "--out", str(world.here / "out")]


def _exported(world: World, *words: str, root: Path | None = None) -> list[str]:
    return ["export", "pcapng", str(root or world.sealed), "--out", str(world.here / "out"), *words]


def _spoiled_ledger(world: World) -> list[str]:
    root = world.copy(world.sealed)
    for file in root.glob("data/cells/*/ledger.*.csv"):
        file.write_text("no ledger", encoding="utf-8")
    return _exported(world, root=root)


def _spoiled_bench(world: World) -> list[str]:
    tree = world.bench()
    next(iter(tree.glob("raw/*/*.json"))).write_text("{", encoding="utf-8")
    return ["bench-report", str(tree)]


def _no_archive(world: World) -> list[str]:
    return ["unpack", world.log("no archive")]


def _made_link(world: World) -> list[str]:
    out = str(world.here / "trace.csv")
    return ["link", "generate", "--length-ms", "1000", "--good-ms", "100", "--bad-ms", "50", "--out", out]


def _taken(world: World) -> list[str]:
    taken = socket.create_server(("127.0.0.1", 0))
    world.held.append(taken)
    return ["live", "--port", str(taken.getsockname()[1]), "--out", str(world.here)]


def _plan_sim(world: World) -> list[str]:
    return ["plan", "smoke", *SIM, "--out", str(world.here)]


def _shares(world: World, of: int, *numbers: int) -> list[str]:
    """The merge of some of a campaign's shares."""
    made = [run_share(world.here / str(n), f"{n}/{of}", repetitions=of) for n in numbers]
    return ["merge", *map(str, made), "--out", str(world.here / "out")]


#: (verb, code) → a world in which the verb ends so, and the command line
CASES: dict[tuple[str, int], Case] = {
    ("setup", 0): lambda w: (w.findings("setup", "ok"), w.answers())[1],
    ("setup", 2): lambda w: [*w.answers(), "--ring", "moon"],
    ("setup", 3): lambda w: (w.findings("setup", "warn"), w.answers())[1],
    ("setup", 4): lambda w: (w.findings("setup", "fail"), w.answers())[1],
    ("doctor", 0): lambda w: (w.findings("doctor", "ok"), ["doctor"])[1],
    ("doctor", 3): lambda w: (w.findings("doctor", "warn"), ["doctor"])[1],
    ("doctor", 4): lambda w: (w.findings("doctor", "fail"), ["doctor"])[1],
    ("tune", 0): lambda w: (w.tuned("set"), ["tune"])[1],
    ("tune", 3): lambda w: (w.tuned("refused"), ["tune"])[1],
    ("tune", 4): lambda w: ["tune", "--state", w.log("no state")],
    ("untune", 0): lambda w: ["untune", "--state", w.none()],
    ("untune", 3): lambda w: (w.tuned("left"), ["untune"])[1],
    ("list", 0): lambda w: ["list"],
    ("validate", 0): lambda w: ["validate", "smoke"],
    ("validate", 2): lambda w: ["validate", "smok"],
    ("show", 0): lambda w: ["show", "smoke"],
    ("show", 2): lambda w: ["show", "smok"],
    ("plan", 0): _plan_sim,
    ("plan", 4): lambda w: [*_plan_sim(w), "--from", w.none()],
    ("run", 0): lambda w: (w.lab(), ["run", "smoke"])[1],
    ("run", 1): _failed,
    ("run", 3): _unsupported,
    ("run", 4): lambda w: ["run", "smoke", *SIM, "--into", w.none()],
    ("live", 0): lambda w: ["live", "--once", "--out", str(w.here)],
    ("live", 4): _taken,
    ("fly", 0): lambda w: w.flying("quit\n"),
    ("fly", 2): lambda w: w.flying("quit\n", "--suite", "plain"),
    ("fly", 4): lambda w: w.flying("quit\n", held=True),
    ("status", 0): lambda w: ["status", "--out", str(w.here)],
    ("status", 4): lambda w: ["status", "20260101T000000Z-aaaaaa", "--out", str(w.here)],
    ("resume", 0): _resumed(None),
    ("resume", 1): _resumed("fail"),
    ("resume", 2): lambda w: _sealed_in(w, "resume"),
    ("resume", 3): _resumed("unsupported"),
    ("resume", 4): lambda w: ["resume", "--out", str(w.here)],
    ("discard", 0): _stopped_discard,
    ("discard", 2): lambda w: _sealed_in(w, "discard"),
    ("discard", 4): lambda w: ["discard", "20260101T000000Z-aaaaaa", "--out", str(w.here)],
    ("heal", 0): lambda w: (w.healed(ok=True), ["heal"])[1],
    ("heal", 4): lambda w: (w.healed(ok=False), ["heal"])[1],
    ("verify", 0): lambda w: ["verify", str(w.sealed)],
    ("verify", 3): lambda w: ["verify", str(make_ready(w.here))],
    ("verify", 4): lambda w: ["verify", w.none()],
    ("verify", 5): lambda w: ["verify", str(w.spoiled())],
    ("report", 0): lambda w: ["report", str(w.sealed), "--out", str(w.here)],
    ("report", 2): lambda w: ["report", str(w.sealed), "--out", str(w.sealed / "data")],
    ("report", 4): lambda w: ["report", w.none()],
    ("report", 5): lambda w: ["report", str(w.spoiled()), "--out", str(w.here / "out")],
    ("compare", 0): lambda w: ["compare", *w.pair()],
    ("compare", 1): lambda w: ["compare", *w.pair(), "--fail-on", "regressed"],
    ("compare", 2): lambda w: ["compare", *w.pair(), "--fail-on", "slower"],
    ("compare", 4): lambda w: ["compare", w.none(), w.none()],
    ("compare", 5): lambda w: ["compare", str(w.sealed), str(w.spoiled())],
    ("advise", 0): lambda w: _radios(w, *RADIO),
    ("advise", 2): lambda w: _radios(w, "--level", "2", *RADIO),
    ("advise", 3): lambda w: _radios(w, *RADIO, "--outage-s", "0.001"),
    ("advise", 4): lambda w: ["advise", w.none(), *RADIO],
    ("advise", 5): _unreadable_table,
    ("merge", 0): lambda w: _shares(w, 2, 1, 2),
    ("merge", 2): lambda w: ["merge", str(w.sealed), str(w.sealed)],
    ("merge", 3): lambda w: _shares(w, 3, 1, 3),
    ("merge", 4): lambda w: ["merge", w.none(), w.none()],
    ("merge", 5): lambda w: ["merge", str(w.spoiled()), str(w.sealed)],
    ("index", 0): lambda w: ["index", str(w.shared / "results"), "--out", str(w.here)],
    ("index", 2): lambda w: ["index", "--day", "someday"],
    ("index", 3): _with_an_older_one,
    ("index", 4): lambda w: ["index", w.none()],
    ("index", 5): _with_a_broken_one,
    ("export", 0): _exported,
    ("export", 2): lambda w: _exported(w, "--cell", "zzzz"),
    ("export", 4): lambda w: ["export", "tlog", str(w.sealed), "--out", str(w.here / "out")],
    ("export", 5): _spoiled_ledger,
    ("audit", 0): lambda w: ["audit", "--published"],
    ("audit", 4): lambda w: ["audit", w.none()],
    ("audit", 5): _altered_claim,
    ("correct", 0): lambda w: ["correct", str(w.sealed), *WHY, "--remark", "--out", str(w.here)],
    ("correct", 4): lambda w: ["correct", w.none(), *WHY, "--remark"],
    ("correct", 5): lambda w: ["correct", str(w.spoiled()), *WHY, "--remark", "--out", str(w.here)],
    ("archive", 0): lambda w: ["archive", str(w.sealed), "--out", str(w.here / "a.tar.zst")],
    ("archive", 4): lambda w: ["archive", w.none()],
    ("archive", 5): lambda w: ["archive", str(w.spoiled()), "--out", str(w.here / "a.tar.zst")],
    ("unpack", 0): lambda w: ["unpack", str(_packed(w)), "--out", str(w.here / "out")],
    ("unpack", 4): lambda w: ["unpack", w.none()],
    ("unpack", 5): _no_archive,
    ("recording", 0): lambda w: _watched(w, spoil=False),
    ("recording", 4): lambda w: ["recording", str(w.sealed), "--out", str(w.here / "out")],
    ("recording", 5): lambda w: _watched(w, spoil=True),
    ("bench-report", 0): lambda w: ["bench-report", str(w.bench())],
    ("bench-report", 4): lambda w: ["bench-report", w.none()],
    ("bench-report", 5): _spoiled_bench,
    ("import-ladder", 0): lambda w: ["import-ladder", w.log(WHOLE)],
    ("import-ladder", 3): lambda w: ["import-ladder", w.log(WHOLE[:-3])],
    ("import-ladder", 4): lambda w: ["import-ladder", w.none()],
    ("import-ladder", 5): lambda w: ["import-ladder", w.log("boot: 12 ms\n")],
    ("link", 0): _made_link,
    ("link", 2): lambda w: ["link", "generate"],
    ("completion", 0): lambda w: ["completion", "bash"],
}  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`results` and `second`: a simulated bundle each."""
    base = tmp_path_factory.mktemp("shared")
    for name in ("results", "second"):
        words = ["run", "smoke", *SIM, "--suites", SUITE, "--reps", "1", "--session-s", "1"]
        assert main([*words, "--out", str(base / name)]) == 0
    return base


def test_every_verb_and_every_code_has_its_words() -> None:
    assert tuple(codes.CODES) == VERBS
    assert set(codes.MEANINGS) == {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    for verb, own in codes.CODES.items():
        assert errors.EXIT_OK in own and set(own) <= set(codes.MEANINGS), verb


def test_every_code_of_every_verb_has_a_case() -> None:
    due = {(verb, code) for verb, own in codes.CODES.items() for code in own}
    assert set(CASES) == due


def test_the_page_is_made_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    page = (project_root() / "docs" / "EXIT-CODES.md").read_text(encoding="utf-8")
    assert page == "\n".join(codes.page()) + "\n", "python -m pqlab.cli.codes writes it"
    with pytest.raises(SystemExit) as ended:
        main(["verify", "--help"])
    assert ended.value.code == 0 and "3 warnings" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("verb", "code"), list(CASES))
def test_a_verb_ends_with_its_code(
    verb: str, code: int, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, monkeypatch, shared)  # holds its sockets until the end
    words = CASES[verb, code](world)
    assert words[0] == verb
    assert main(words) == code
    for held in world.held:
        held.close()


def _ended(verb: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> int:
    """The code of a verb in which `error` is raised at once."""

    def ends(*_: object, **__: object) -> NoReturn:
        raise error

    needed = {"link": ["show"], "export": ["tlog"], "completion": ["bash"], "compare": ["a", "b"]}
    needed |= {"correct": [*WHY], "recording": ["--out", "x"]}
    named = ("plan", "run", "show", "discard", "unpack", "merge", "bench-report", "import-ladder")
    needed |= {name: ["x"] for name in named}
    monkeypatch.setattr(importlib.import_module(f"pqlab.cli.{verb.replace('-', '_')}"), "run", ends)
    return main([verb, *needed.get(verb, [])])


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_the_codes_that_all_have(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main([verb, "--xyzzy", "9"]) == errors.EXIT_USAGE
    assert _ended(verb, KeyboardInterrupt, monkeypatch) == errors.EXIT_INTERRUPTED
    assert _ended(verb, PermissionError, monkeypatch) == errors.EXIT_ENVIRONMENT


@pytest.mark.parametrize("words", [["list"], ["audit", "--published"], ["list", "--json"]])
def test_a_reader_that_goes_away_is_no_fault_and_no_answer(words: list[str]) -> None:
    """Output that fits a buffer, which is written at the end alone, and output that does not."""
    program = "import sys; from pqlab.cli.main import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        told = child.stderr.read().decode()
        assert (child.wait(60), told) == (errors.EXIT_PIPE, "")
