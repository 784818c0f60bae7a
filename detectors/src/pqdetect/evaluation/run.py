"""`pqdetect evaluate`: the models on the test split, every seed that is at hand, and live recordings."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence, Sized
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqbase.documents import Json, number_of, part_of
from pqbase.tasks import Here, Runner
from pqdetect.decide import Rule
from pqdetect.errors import DetectError
from pqdetect.evaluation import baselines, compare, copies, csvfiles, degraded, figures, lab, tables
from pqdetect.evaluation import live as of_lab
from pqdetect.evaluation.metrics import Outcome
from pqdetect.evaluation.report import (
    EQUAL_FALSE_ALARMS_PER_H,
    HeldOut,
    at_equal_alarms,
    method_report,
    sweep,
)
from pqdetect.evaluation.results import CopiesRow, DegradedPoint, Method, Part, Results, Seeds, Shuffled
from pqdetect.evaluation.truth import GRACE_WINDOWS, WINDOW_S
from pqdetect.model import Model, load
from pqdetect.models import card as cards
from pqdetect.models.cascade import joined
from pqdetect.recording import BINS_FILE, TRUTH_FILE, read
from pqdetect.simulate import table, table_sha256
from pqdetect.training.data import Dataset, collect, prefix
from pqdetect.training.run import libraries
from pqdetect.training.store import dataset
from pqdetect.training.tasks import scored

SCHEMA: Final = "pqdetect/evaluation/v1"
LEARNED: Final = ("xgboost-5w", "xgboost", "tst-p8", "tst", "cascade")
RESULTS: Final = "results.json"
# Seeds are compared on this share of the test recordings: the same ones for all.
SEED_SHARE: Final = 0.15


class Evaluation:
    """One run over ``models``; results go to ``out``, ``work`` holds the seeds of a training run, ``record``
    what it said of itself. ``runner`` simulates and scores."""

    def __init__(
        self,
        models: Path,
        work: Path,
        out: Path,
        scale: float,
        record: Path | None = None,
        runner: Runner | None = None,
    ) -> None:
        self.folder, self.runner = models, runner or Here()
        self.work, self.out, self.scale, self.record = work, out, scale, record or out
        self.began = time.monotonic()
        self.models: dict[str, Model] = {
            name: load(models / name)
            for name in (*baselines.NAMES, *LEARNED)
            if (models / name / cards.CARD).is_file()
        }
        if not self.models:
            tiny = " --tiny" if scale < 1 else ""
            raise DetectError(f"no model in {models}", code="model", hint=f"./pqdetect train{tiny}")
        given = table()["held_out"]
        self.held_out = HeldOut(
            frozenset(given["kinds"]),
            frozenset(given["profiles"]),
            frozenset(float(r) for r in given["rates"]),
        )

    def say(self, text: str) -> None:
        """A line with the time since the start."""
        print(f"[{time.monotonic() - self.began:6.0f} s] {text}", file=sys.stderr, flush=True)

    def run(self, live: Sequence[Path], bundles: Sequence[Path] = ()) -> Results:
        """Everything; the JSON, CSV and SVG files are written to ``out``."""
        self._folders()
        test = dataset("test", self.scale, self.work, self.runner)
        report, equal = self._set(test, "test")
        results: Results = {
            "schema": SCHEMA,
            "provenance": {
                "splits_sha256": table_sha256(),
                "scale": self.scale,
                "data_sha256": test.digest,
                "models": {name: model.sha256 for name, model in self.models.items()},
                "libraries": libraries(),
            },
            "definitions": {
                "window_s": WINDOW_S,
                "grace_s": GRACE_WINDOWS * WINDOW_S,
                "equal_false_alarms_per_h": EQUAL_FALSE_ALARMS_PER_H,
                "held_out": {key: sorted(value) for key, value in vars(self.held_out).items()},
            },
            "sets": {"test": report},
            "winner": compare.winner(equal, test.truth),
            "seeds": self._seeds(test),
            "cards": {name: _facts(model) for name, model in self.models.items()},
            "shuffled_labels": self._shuffled(),
        }
        results["degraded_curve"] = self._degraded(test, results["winner"]["default"])
        results["copies"] = self._copies()
        return self._write(results, live, bundles)

    def add(self, live: Sequence[Path], bundles: Sequence[Path]) -> Results:
        """What the lab showed, in the place of what it showed before, put into the results that ``out`` holds
        of these very models; the test recordings are not judged again. Raises DetectError where there are
        none, or of other models."""
        path = self.out / RESULTS
        try:
            results: Results = json.loads(path.read_text())
            told = results["provenance"]["models"]
        except (OSError, ValueError, KeyError) as error:
            raise DetectError(
                f"{path} holds no results to add to ({error})", code="results", hint="./pqdetect evaluate"
            ) from error
        if told != (mine := {name: model.sha256 for name, model in self.models.items()}):
            other = sorted(name for name in told | mine if told.get(name) != mine.get(name))
            raise DetectError(
                f"{path} was made of other models ({', '.join(other)})",
                code="results",
                hint="./pqdetect evaluate, without --add",
            )
        self._folders()
        if "degraded_curve" not in results:
            results["degraded_curve"] = self._degraded(
                dataset("test", self.scale, self.work, self.runner), results["winner"]["default"]
            )
        if "copies" not in results:
            results["copies"] = self._copies()
        return self._write(results, live, bundles)

    def _folders(self) -> None:
        """Both are there and take files. Raises DetectError now and not after the work."""
        for folder in (self.work, self.out):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=folder):
                    pass
            except OSError as error:
                raise DetectError(
                    f"{folder}: {error.strerror or error}",
                    code="folder",
                    hint="name a folder that this user may write",
                ) from error

    def _degraded(self, test: Dataset, default: str) -> dict[str, list[DegradedPoint]]:
        """The trade of DEGRADED for the default detector and the rule beside it."""
        chosen = {name: self.models[name] for name in sorted({default, degraded.BESIDE} & set(self.models))}
        scores = self._scored(chosen, self._folders_of(chosen), test, "degraded")
        return degraded.curves(scores, {name: model.rules for name, model in chosen.items()}, test.truth)

    def _copies(self) -> list[CopiesRow]:
        """False alarms where the way doubles packets."""
        rules = {name: model.rules for name, model in self.models.items()}
        return copies.rows(self._scores, rules, self.scale)

    def _write(self, results: Results, live: Sequence[Path], bundles: Sequence[Path]) -> Results:
        campaigns = lab.read(bundles) if bundles else None
        if live:
            before, part = results["sets"].get("live"), self._live(live)
            if before is not None:
                self._gives_way("recordings of the lab", before["recordings"], part["recordings"])
            results["sets"]["live"] = part
        if campaigns is not None:
            if "lab" in results:
                self._gives_way("campaigns", results["lab"]["bundles"], campaigns["bundles"])
            results["lab"] = campaigns
        results["targets"] = tables.targets(results)
        if "live" in results["sets"]:
            results["targets_live"] = tables.targets(results, "live")
        text = json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False)
        (self.out / RESULTS).write_text(text + "\n")
        csvfiles.write_csv(results, self.out)
        figures.write_all(results, self.out)
        self.say(f"wrote {self.out}")
        return results

    def _gives_way(self, what: str, before: Sized, new: Sized) -> None:
        """Say what a part of the results takes the place of."""
        self.say(f"{len(before)} {what} give way to {len(new)}")

    def _set(self, data: Dataset, name: str) -> tuple[Part, dict[str, Outcome]]:
        truth = data.truth
        self.say(
            f"{name}: {len(truth.scenario_ids)} recordings, {truth.hours:.1f} h, "
            f"{len(truth.episodes)} episodes"
        )
        scores = self._scores(data, name)
        rules = {key: model.rules for key, model in self.models.items()}
        scores["random"] = baselines.random_scores(len(data.rows))
        # Chance at the level that would give it the allowed false alarms: it has no validation to learn from.
        level = 1 - EQUAL_FALSE_ALARMS_PER_H * WINDOW_S / 3600
        rules["random"] = {output: Rule(level, level) for output in ("attack", "degraded")}
        methods: dict[str, Method] = {}
        equal: dict[str, Outcome] = {}
        for key, values in scores.items():
            points = sweep(values[:, 0].astype(np.float64), truth, rules[key]["attack"])
            equal[key] = at_equal_alarms(points)
            methods[key] = method_report(values, truth, rules[key], self.held_out, points)
            found, heavy = methods[key]["recall_visible"], methods[key]["recall_loss_30pct"]
            self.say(
                f"{name}: {key}: {tables.percent(found, bounds=False)} of {found['n']} episodes found, "
                f"of {heavy['n']} with ≥ 30 % loss {tables.percent(heavy, bounds=False)}, "
                f"{tables.number(methods[key]['false_alarms_per_h']['value'])} false alarms/h"
            )
        loss = [episode.loss is not None and episode.loss >= 0.3 for episode in truth.episodes]
        return {
            "recordings_count": len(truth.scenario_ids),
            "hours": round(truth.hours, 2),
            "attack_free_hours": round(truth.attack_free_hours, 2),
            "episodes_visible": len(truth.episodes),
            "episodes_loss_30pct": sum(loss),
            "methods": methods,
        }, equal

    def _live(self, folders: Sequence[Path]) -> Part:
        recordings = [read(folder) for folder in find_recordings(folders)]
        data = collect(recordings)
        part, _ = self._set(data, "live")
        rules = {key: model.rules for key, model in self.models.items()}
        alarms = of_lab.alarms_of(self._scores(data, "live"), rules, data.truth)
        return {
            **part,
            "attacks": of_lab.attacks(alarms, data),
            "quiet": of_lab.quiet(alarms, data),
            "simulator": of_lab.against_simulator(recordings),
            "recordings": [
                {"scenario_id": r.truth.scenario_id, "kind": r.truth.kind, "profile": r.truth.profile}
                for r in recordings
            ],
        }

    def _scores(self, data: Dataset, name: str) -> dict[str, NDArray[np.float32]]:
        """Scores of all models; the cascade's come from those of its stages, as it computes them."""
        stages = part_of(self.models["cascade"].card, "stages") if "cascade" in self.models else None
        alone = {key: model for key, model in self.models.items() if key != "cascade"}
        scores = self._scored(alone, self._folders_of(alone), data, name)
        if stages is not None:
            first, second = scores[str(stages["first"])], scores[str(stages["second"])]
            scores["cascade"] = joined(first, second, number_of(stages, "trigger"), str(stages["join"]))
        return scores

    def _folders_of(self, models: Iterable[str]) -> dict[str, Path]:
        return {name: self.folder / name for name in models}

    def _scored(
        self, models: dict[str, Model], folders: dict[str, Path], data: Dataset, what: str
    ) -> dict[str, NDArray[np.float32]]:
        """Scores of models over recordings; those of a graph that saw the same data before are read again."""
        folder = self.work / "scores"
        folder.mkdir(exist_ok=True)
        paths = {
            key: folder / f"{model.sha256[:16]}-{data.digest[:16]}.npy"
            for key, model in models.items()
            if "sha256" in model.card
        }
        scores = {key: np.load(path) for key, path in paths.items() if path.is_file()}
        if rest := {key: folders[key] for key in models if key not in scores}:
            scores |= scored(rest, data, what, self.runner, self.work / "tasks")
        for key, path in paths.items():
            if not path.is_file():
                np.save(path, scores[key])
        return scores

    def _seeds(self, test: Dataset) -> Seeds:
        """Recall at equal false alarms of every seed of a training run; null without its folder."""
        folders = sorted((self.work / "seeds").glob(f"*/{cards.CARD}"))
        if not folders:
            return {"value": None, "reason": "no seeds in the work folder: run ./pqdetect train first"}
        part = prefix(test, SEED_SHARE)
        models = {path.parent.name: load(path.parent) for path in folders}
        scores = self._scored(models, {path.parent.name: path.parent for path in folders}, part, "seeds")
        by_name: dict[str, list[float]] = {}
        for key, model in models.items():
            points = sweep(scores[key][:, 0].astype(np.float64), part.truth, model.rules["attack"])
            result = at_equal_alarms(points)
            found = float(np.isfinite(result.delays_s).mean()) if len(result.delays_s) else 0.0
            by_name.setdefault(model.name, []).append(found)
        means = {name: compare.over_seeds(values) for name, values in by_name.items()}
        best = max(means, key=lambda name: means[name]["mean"] or 0.0)
        return {
            "what": "recall of visible episodes at equal false alarms, one value a seed",
            "hours": round(part.truth.hours, 1),
            "kinds": sorted({episode.kind for episode in part.truth.episodes}),
            "models": means,
            "best": best,
            "best_ahead_in_se": {
                name: compare.seeds_apart(means[best], means[name]) for name in means if name != best
            },
        }

    def _shuffled(self) -> Shuffled:
        path = self.record / "training.json"
        try:
            found: Shuffled = json.loads(path.read_text())["models"]["shuffled labels"]
        except (OSError, ValueError, KeyError) as error:
            return {"auroc": None, "reason": f"{path.name}: {error}"}
        return found


def find_recordings(folders: Sequence[Path]) -> list[Path]:
    """Folders with bins and truth, at or below those named; raises DetectError where there is none."""
    found = []
    for folder in folders:
        here = sorted(path.parent for path in folder.rglob(TRUTH_FILE) if (path.parent / BINS_FILE).is_file())
        if not here:
            raise DetectError(
                f"{folder} holds no recording ({BINS_FILE} with {TRUTH_FILE})",
                code="recording",
                hint="./pqlab recording BUNDLE --out DIR",
            )
        found += here
    return found


def write_default(results: Results, models: Path) -> None:
    """The winner of the test recordings, as data."""
    chosen = results["winner"]
    told = {"default": chosen["default"], "rule": chosen["rule"], "best": chosen["best"]}
    (models / cards.DEFAULT).write_text(json.dumps(told, indent=1) + "\n")


def _facts(model: Model) -> Json:
    """What the property table shows of a card."""
    keys = (
        "kind",
        "parameters_count",
        "size_bytes",
        "history_windows",
        "window_s",
        "time_to_first_verdict_s",
        "inference",
        "seed",
        "stages",
        "signals",
        "rules",
    )
    return {key: model.card.get(key) for key in keys}
