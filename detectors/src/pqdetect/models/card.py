"""Model cards: everything about a model but its weights, as JSON beside it (docs/DETECTORS.md)."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Final

from pqbase.documents import Json, part_of
from pqdetect.decide import Rule
from pqdetect.errors import DetectError

SCHEMA: Final = "pqdetect/card/v1"
KINDS: Final = ("trees", "transformer", "rule", "cascade")
CARD, GRAPH, DEFAULT = "card.json", "model.onnx", "default.json"
_REQUIRED: Final = ("schema", "name", "kind", "features", "history_windows", "first_verdict_windows", "rules")

Card = Json


class ModelError(DetectError):
    """A model that cannot be loaded."""

    code = "model"
    hint = "detectors/models holds the models of this tree; `./pqdetect train` makes them anew"


def models_folder() -> Path:
    """Where models lie: $PQ_MODELS, otherwise detectors/models of the source tree."""
    named = os.environ.get("PQ_MODELS")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "models"


def find(name: str | Path) -> Path:
    """The folder of a model, by name or by path; `default` is the one that default.json names."""
    root = models_folder()
    if str(name) == "default":
        return root / str(default_name(root))
    for folder in (root / name, Path(name)):
        if (folder / CARD).is_file():
            return folder
    there = ", ".join(sorted(item.parent.name for item in root.glob(f"*/{CARD}"))) or "none"
    raise ModelError(f"no model {name!s} (in {root}: {there})")


def default_name(root: Path) -> str:
    """The winner of the evaluation, as written beside the models."""
    try:
        return str(json.loads((root / DEFAULT).read_text())["default"])
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"no default model: {root / DEFAULT} cannot be read ({error})") from error


def read(folder: Path) -> Card:
    """A checked card: known kind, both rules whole, and the graph is the file that the card speaks of."""
    path = folder / CARD
    try:
        card: Card = json.loads(path.read_text())
        missing = [key for key in _REQUIRED if key not in card]
        if missing:
            raise ModelError(f"{path} lacks {', '.join(missing)}")
        if card["schema"] != SCHEMA or card["kind"] not in KINDS:
            raise ModelError(
                f"{path} is {card['schema']} of kind {card['kind']}; this is {SCHEMA}: {', '.join(KINDS)}"
            )
        for output in ("attack", "degraded"):
            Rule.of(part_of(part_of(card, "rules"), output))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} is no model card ({error})") from error
    if card["kind"] in ("trees", "transformer"):
        got = sha256(folder / GRAPH)
        if got != card.get("sha256"):
            raise ModelError(
                f"{folder / GRAPH} has checksum {got[:12]}…, its card says {str(card.get('sha256'))[:12]}…"
            )
    return card


def write(folder: Path, card: Card, graph: bytes | None) -> None:
    """Write a model; the graph's size and checksum go into the card."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = dict(card)
    if graph is not None:
        (folder / GRAPH).write_bytes(graph)
        whole |= {"size_bytes": len(graph), "sha256": hashlib.sha256(graph).hexdigest()}
    (folder / CARD).write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")


def sha256(path: Path) -> str:
    """Checksum of a file; raises `ModelError` where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error})") from error
