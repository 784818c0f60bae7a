"""`pqdetect train`: recordings → models → rules → cards, with every seed kept for the evaluation."""

from __future__ import annotations

import json
import platform
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqbase.documents import Json, part_of
from pqdetect.decide import Rule
from pqdetect.evaluation import baselines
from pqdetect.evaluation.metrics import auroc
from pqdetect.evaluation.scoring import score_dataset
from pqdetect.features import SCHEMA as FEATURES
from pqdetect.features import FeatureStream
from pqdetect.feed import WINDOW_S
from pqdetect.model import load
from pqdetect.models import card as cards
from pqdetect.models import transformer, vectors
from pqdetect.models.cascade import JOINS, joined
from pqdetect.models.learned import Trees
from pqdetect.models.rules import RuleModel
from pqdetect.models.session import open_graph
from pqdetect.simulate import table_sha256
from pqdetect.training import trees as boosted
from pqdetect.training import tune
from pqdetect.training.plan import SHAPES, TREE_HISTORY, TREE_NAMES, TREES, Plan
from pqdetect.training.store import dataset

TRIGGERS: Final = (0.02, 0.1, 0.3)
# An alarm of a learned detector ends below half the score at which it began; that of a rule, below its level.
RELEASE: Final = 0.5
STEPS_TIMED: Final = 300

Scores = NDArray[np.float32]


@dataclass(frozen=True)
class Candidate:
    """One trained model of one seed, with its scores on validation recordings."""

    name: str
    seed: int
    folder: Path
    scores: Scores
    attack: tune.Tuned[tune.AttackFigures]
    degraded: tune.Tuned[tune.DegradedFigures]

    @property
    def merit(self) -> tuple[float, ...]:
        """Larger is better: within the budget, then episodes found, then the shorter delay."""
        figures = self.attack.figures
        found = figures["recall_visible"] + (figures["recall_visible_loss_30pct"] or 0.0)
        delay = figures["median_delay_s"]
        return float(figures["within_budget"]), found, -(delay if delay is not None else 1e9)


class Training:
    """One run: ``work`` takes scratch files and all seeds, ``models`` the chosen ones, ``record`` figures."""

    def __init__(self, plan: Plan, work: Path, models: Path, record: Path) -> None:
        self.plan, self.work, self.models, self.record = plan, work, models, record
        self.began = time.monotonic()
        self.notes: Json = {}
        work.mkdir(parents=True, exist_ok=True)

    def say(self, text: str) -> None:
        """A line with the time since the start."""
        print(f"[{time.monotonic() - self.began:6.0f} s] {text}", file=sys.stderr, flush=True)

    def run(self, only: Sequence[str] = ()) -> None:
        """Everything, in order; with ``only`` the seeds of these models and nothing more.

        Seeds that are in the work folder already, of the same data and settings, are taken as they are.
        """
        self.say("recordings")
        self.train = dataset("train", self.plan.scale, self.work)
        self.validation = dataset("validation", self.plan.scale, self.work)
        for name in only:
            made = self._trees(name) if name in TREES else self._transformers(name)
            self.say(f"{name}: {len(made)} seeds in {self.work / 'seeds'}")
        if only:
            return
        chosen: dict[str, Candidate] = {}
        for name in TREES:
            chosen[name] = self._choose(name, self._tuned(name, self._trees(name)))
        for name in SHAPES:
            if self.plan.seeds[name]:
                chosen[name] = self._choose(name, self._tuned(name, self._transformers(name)))
        self._rules()
        self._cascade(chosen)
        self._shuffled()
        self._time([*chosen, "cascade"])
        self.record.mkdir(parents=True, exist_ok=True)
        whole = {"schema": "pqdetect/training/v1", "provenance": self._provenance(), "models": self.notes}
        (self.record / "training.json").write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
        self.say(f"done: {self.models}, {self.record / 'training.json'}")

    # ------------------------------------------------------------------ one model of one seed

    def _trees(self, name: str) -> dict[str, Path]:
        given = TREES[name]
        drawn: boosted.Sample | None = None
        card = self._card(name, "trees") | {
            "input": {"rows": given, "shape": [1, len(TREE_NAMES[given])], "names": list(TREE_NAMES[given])},
            "settings": self.plan.trees.as_dict(),
            "history_windows": TREE_HISTORY[given],
            "normalisation": None,
        }
        made: dict[str, Path] = {}
        probe = self._probe()
        for seed in range(self.plan.seeds[name]):
            folder = self.work / "seeds" / f"{name}-{seed}"
            made[str(seed)] = folder
            if self._kept(folder, card | {"seed": seed}):
                continue
            if drawn is None:
                drawn = boosted.sample(self.train, given, self.plan.trees, 0)
            got = boosted.train(drawn, self.plan.trees, seed, boosted.WIDE[given](probe))
            self.say(
                f"{name} seed {seed}: {len(got.graph)} bytes of ONNX; a plain walk through its trees is "
                f"{got.difference:.1e} from XGBoost"
            )
            self._put(folder, card | {"seed": seed, "parameters_count": got.parameters_count}, got.graph)
            vectors.write(folder, probe, got.theirs, f"xgboost {libraries()['xgboost-cpu']}")
        return made

    def _transformers(self, name: str) -> dict[str, Path]:
        from pqdetect.training import network

        shape = SHAPES[name]
        settings = replace(network.Settings(), steps=self.plan.steps[name])
        card = self._card(name, "transformer") | {
            "input": {
                "rows": "patches" if shape.patch > 1 else "windows",
                "shape": [1, shape.features * shape.patch],
            },
            "shape": shape.as_dict(),
            "settings": settings.as_dict(),
            "history_windows": shape.history_windows,
        }
        made: dict[str, Path] = {}
        for seed in range(self.plan.seeds[name]):
            folder = self.work / "seeds" / f"{name}-{seed}"
            made[str(seed)] = folder
            if self._kept(folder, card | {"seed": seed}):
                continue
            self.say(
                f"{name} seed {seed}: {settings.steps} steps of {settings.batch} × {network.SEQUENCE} windows"
            )
            model = network.train(self.train, shape, settings, seed)
            weights = model.export()
            graph, count = transformer.graph(shape, weights, {"features": FEATURES})
            mean, std = (weights[key][: shape.features] for key in ("mean", "std"))
            scaling: Json = {"of": "log(1 + x), unknown as 0 afterwards, cut at ±8 (inside the graph)"}
            scaling |= {"mean": [round(float(v), 5) for v in mean], "std": [round(float(v), 5) for v in std]}
            self._put(
                folder, card | {"seed": seed, "parameters_count": count, "normalisation": scaling}, graph
            )
            probe = self._probe()
            expected = np.full((len(probe), 2), np.nan, np.float32)
            # The last of the interleaved streams of patches begins with the probe's first window.
            tokens = probe.reshape(-1, shape.features * shape.patch)
            expected[shape.patch - 1 :: shape.patch] = model.scores(tokens)
            vectors.write(folder, probe, expected, f"torch {libraries()['torch']}")
        return made

    def _kept(self, folder: Path, card: cards.Card) -> bool:
        """Is that model there, made from the same data with the same settings?"""
        try:
            there = cards.read(folder)
            vectors.read(folder)
        except cards.ModelError:
            return False
        same = json.loads(json.dumps(card))
        if any(there.get(key) != value for key, value in same.items() if key != "training"):
            return False
        kept = bool(part_of(there, "training")["data_sha256"] == same["training"]["data_sha256"])
        if kept:
            self.say(f"{folder.name}: kept from an earlier run")
        return kept

    def _probe(self) -> Scores:
        """Validation windows in which an attack begins: what trained and deployed must agree on."""
        first = int(np.argmax(self.validation.truth.attack))
        begin = max(first - vectors.WINDOWS // 2, 0)
        return self.validation.rows[begin : begin + vectors.WINDOWS]

    def _put(self, folder: Path, card: cards.Card, graph: bytes) -> None:
        never = Rule(1.0, 1.0).as_dict()  # until validation recordings say better
        cards.write(folder, card | {"rules": {"attack": never, "degraded": never}}, graph)

    # ------------------------------------------------------------------ rules and choice

    def _tuned(self, name: str, folders: dict[str, Path]) -> list[Candidate]:
        loaded = {seed: load(folder) for seed, folder in folders.items()}
        for seed, folder in folders.items():
            apart = vectors.difference(loaded[seed], folder)
            self.say(
                f"{name} seed {seed}: the deployed graph's scores are {apart:.1e} from the trained model's"
            )
            vectors.demand(apart, folder)
        models = {seed: model.scorer for seed, model in loaded.items()}
        scores = score_dataset(models, self.validation, f"{name} on validation")
        found = []
        for seed, folder in folders.items():
            one = scores[seed].astype(np.float64)
            attack = tune.attack_rule(one[:, 0], self.validation.truth, RELEASE)
            degraded = tune.degraded_rule(one[:, 1], self.validation.truth, RELEASE)
            self._rule_into(folder, attack, degraded)
            self.say(f"{name} seed {seed}: {tune.attack_told(attack)}; {tune.degraded_told(degraded)}")
            found.append(Candidate(name, int(seed), folder, scores[seed], attack, degraded))
        return found

    def _rule_into(
        self, folder: Path, attack: tune.Tuned[tune.AttackFigures], degraded: tune.Tuned[tune.DegradedFigures]
    ) -> None:
        card = json.loads((folder / cards.CARD).read_text())
        card["rules"] = {"attack": attack.rule.as_dict(), "degraded": degraded.rule.as_dict()}
        card["validation"] = {"attack": attack.figures, "degraded": degraded.figures}
        (folder / cards.CARD).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n")

    def _choose(self, name: str, found: list[Candidate]) -> Candidate:
        best = max(found, key=lambda one: one.merit)
        target = self.models / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(best.folder, target)
        self.notes[name] = {
            "seeds": [
                {"seed": one.seed, "attack": one.attack.figures, "degraded": one.degraded.figures}
                for one in found
            ],
            "chosen_seed": best.seed,
        }
        return best

    def _rules(self) -> None:
        self.say("trivial rules")
        truth = self.validation.truth
        for name, signals in baselines.signals(self.validation).items():
            model = RuleModel(signals["attack"], signals["degraded"])
            scores = baselines.score(model, self.validation).astype(np.float64)
            attack = tune.attack_rule(scores[:, 0], truth, 1.0)
            degraded = tune.degraded_rule(scores[:, 1], truth, 1.0)
            card = self._card(name, "rule") | {
                "signals": {output: asdict(signal) for output, signal in signals.items()},
                "rules": {"attack": attack.rule.as_dict(), "degraded": degraded.rule.as_dict()},
                "validation": {"attack": attack.figures, "degraded": degraded.figures},
                "history_windows": 3,
                "parameters_count": 0,
                "size_bytes": 0,
                "normalisation": None,
            }
            cards.write(self.models / name, card, None)
            self.notes[name] = {"attack": attack.figures, "degraded": degraded.figures}
            self.say(f"{name} on {signals['attack'].feature}: {tune.attack_told(attack)}")

    def _cascade(self, chosen: dict[str, Candidate]) -> None:
        first = chosen["xgboost"]
        truth = self.validation.truth
        second = max((chosen[name] for name in SHAPES if name in chosen), key=lambda one: one.merit)
        tried: list[tuple[Candidate, float, str]] = []
        for trigger in TRIGGERS:
            for join in JOINS:
                scores = joined(first.scores, second.scores, trigger, join)
                attack = tune.attack_rule(scores[:, 0].astype(np.float64), truth, RELEASE)
                tried.append(
                    (Candidate("cascade", 0, self.work, scores, attack, first.degraded), trigger, join)
                )
        best, trigger, join = max(tried, key=lambda one: one[0].merit)
        card = self._card("cascade", "cascade") | {
            "stages": {"first": "xgboost", "second": second.name, "trigger": trigger, "join": join},
            "rules": {"attack": best.attack.rule.as_dict(), "degraded": first.degraded.rule.as_dict()},
            "validation": {"attack": best.attack.figures, "degraded": first.degraded.figures},
            "history_windows": 400,
            "parameters_count": None,
            "parameters_reason": "none of its own: see the two stages",
            "triggered_share": round(float((first.scores[:, 0] >= trigger)[~truth.near_attack].mean()), 5),
            "size_bytes": 0,
            "normalisation": None,
        }
        cards.write(self.models / "cascade", card, None)
        self.notes["cascade"] = {"attack": best.attack.figures, "stages": card["stages"]}
        self.say(
            f"cascade: {second.name} from xgboost {trigger:g} on, {join}: {tune.attack_told(best.attack)}"
        )

    # ------------------------------------------------------------------ checks and provenance

    def _shuffled(self) -> None:
        """Labels dealt out anew must leave nothing to learn: window AUROC on validation near 0.5."""
        settings = replace(self.plan.trees, rounds=min(self.plan.trees.rounds, 40))
        drawn = boosted.sample(self.train, "five_window", settings, 0)
        values = []
        for seed in range(self.plan.shuffled_seeds):
            got = boosted.train(drawn, settings, seed, drawn.wide[:1], shuffle=True)
            path = self.work / f"shuffled-{seed}.onnx"
            path.write_bytes(got.graph)
            scores = score_dataset(
                {"shuffled": Trees(open_graph(path), "five_window")}, self.validation, "shuffled labels"
            )
            value = auroc(scores["shuffled"][:, 0].astype(np.float64), self.validation.truth.attack)
            values.append(None if value is None else round(value, 4))
        self.notes["shuffled labels"] = {"auroc": values, "model": "xgboost-5w", "rounds": settings.rounds}
        self.say(f"shuffled labels: AUROC {', '.join(map(str, values))}")

    def _time(self, names: list[str]) -> None:
        """Time of a whole step (features of the newest window and inference), into each card."""
        rows = self.validation.rows[: STEPS_TIMED + 500]
        for name in names:
            model, stream = load(self.models / name), FeatureStream()
            spent = []
            for k, row in enumerate(rows):
                stream.push_row(k, row)
                before = time.perf_counter_ns()
                model.step(stream)
                spent.append((time.perf_counter_ns() - before) / 1e3)
            late = np.array(spent[-STEPS_TIMED:])
            path = self.models / name / cards.CARD
            card = json.loads(path.read_text())
            card["inference"] = {
                "median_us": round(float(np.median(late)), 1),
                "p99_us": round(float(np.quantile(late, 0.99)), 1),
                "windows": len(late),
                "machine": platform.machine(),
                "ring": "lab",
            }
            path.write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n")
            self.say(f"{name}: {card['inference']['median_us']} µs a window")

    def _card(self, name: str, kind: str) -> cards.Card:
        return {
            "schema": cards.SCHEMA,
            "name": name,
            "kind": kind,
            "features": FEATURES,
            "outputs": ["attack", "degraded"],
            "window_s": WINDOW_S,
            "first_verdict_windows": 1,
            "time_to_first_verdict_s": WINDOW_S,
            "training": self._provenance(),
        }

    def _provenance(self) -> Json:
        return {
            "source": "simulator",
            "splits_sha256": table_sha256(),
            "scale": self.plan.scale,
            "hours": {
                "train": round(self.train.truth.hours, 1),
                "validation": round(self.validation.truth.hours, 1),
            },
            "episodes": {
                "train": len(self.train.truth.episodes),
                "validation": len(self.validation.truth.episodes),
            },
            "data_sha256": {"train": self.train.digest, "validation": self.validation.digest},
            "libraries": libraries(),
        }


def libraries() -> dict[str, str | None]:
    """Versions of what trains and runs the models; null where one is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in ("numpy", "onnxruntime", "xgboost-cpu", "torch"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found
