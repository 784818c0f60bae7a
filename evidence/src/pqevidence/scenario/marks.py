"""YAML with the line of every key and value, so that an error can point at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import yaml

from pqbase.documents import Json
from pqevidence.errors import ScenarioError
from pqevidence.paths import shown

#: where a value stands: keys and list positions from the root
KeyPath = tuple[str | int, ...]
_MOST_LEVELS = 32
_MOST_VALUES = 20_000


@dataclass(frozen=True)
class Place:
    """Where a value was written: file as a user would type it, 1-based line, and the overlay it came by."""

    file: str
    line: int
    overlay: str | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}"
        return place if self.overlay is None else f"overlay {self.overlay} ({place})"


@dataclass
class MarkedYaml:
    """A document and the place of each of its keys (mappings) and items (lists)."""

    file: Path
    data: Json
    places: dict[KeyPath, Place] = field(default_factory=dict)

    def place(self, path: KeyPath) -> Place:
        """Place of `path`, or of its nearest enclosing key when it is not in the file."""
        for length in range(len(path), -1, -1):
            found = self.places.get(path[:length])
            if found is not None:
                return found
        return Place(shown(self.file), 1)


def read_marked(file: Path) -> MarkedYaml:
    """Parse one YAML mapping. Raises ScenarioError (unreadable, syntax, duplicate key) with its line."""
    name = shown(file)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ScenarioError(
            "unreadable-scenario", f"cannot read {name}", str(reason), "./pqlab validate"
        ) from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise ScenarioError(
            "yaml-syntax",
            f"{name}:{line}: not YAML: {error.problem or error}",
            str(error.context or "the text cannot be parsed"),
            f"correct line {line} of {name}, then: ./pqlab validate {name}",
        ) from error
    except (yaml.YAMLError, RecursionError) as error:
        # a character that YAML does not allow, or brackets inside one another without end: neither has a mark
        why = "nested too deep" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise ScenarioError(
            "yaml-syntax", f"{name}: not YAML", why, f"correct {name}, then: ./pqlab validate {name}"
        ) from error
    if root is None:
        raise ScenarioError(
            "empty-scenario", f"{name}:1: the file is empty", "a scenario is a mapping", f"see {_example()}"
        )
    if not isinstance(root, yaml.MappingNode):
        raise ScenarioError(
            "not-a-mapping",
            f"{name}:{root.start_mark.line + 1}: a scenario is a mapping of keys to values",
            "found a list or a single value",
            f"see {_example()}",
        )
    marked = MarkedYaml(file, {})
    marked.places[()] = Place(name, root.start_mark.line + 1)
    marked.data = _mapping(root, (), marked, name)
    return marked


def _example() -> str:
    return "scenarios/smoke.yml for a complete one"


def _build(node: yaml.Node, path: KeyPath, marked: MarkedYaml, name: str) -> object:
    # Aliases may point at what holds them, or double a text line by line: neither has an end worth reaching.
    if len(path) > _MOST_LEVELS or len(marked.places) > _MOST_VALUES:
        raise ScenarioError(
            "too-large",
            f"{name}:{node.start_mark.line + 1}: more than {_MOST_VALUES} values, or {_MOST_LEVELS} levels",
            "an alias (`*name`) repeats what it points at, which may hold aliases again",
            f"write the values out, then: ./pqlab validate {name}",
        )
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, marked, name)
    if isinstance(node, yaml.SequenceNode):
        items = []
        for index, item in enumerate(node.value):
            marked.places[(*path, index)] = Place(name, item.start_mark.line + 1)
            items.append(_build(item, (*path, index), marked, name))
        return items
    return _scalar(node, name)


def _mapping(node: yaml.MappingNode, path: KeyPath, marked: MarkedYaml, name: str) -> Json:
    mapping: Json = {}
    for key_node, value_node in node.value:
        key, line = key_node.value, key_node.start_mark.line + 1
        if not isinstance(key, str):
            raise ScenarioError(
                "bad-key",
                f"{name}:{line}: a key must be a word",
                "found a list or a mapping",
                f"correct {name}",
            )
        if key in mapping:
            first = marked.places[(*path, key)].line
            raise ScenarioError(
                "duplicate-key",
                f"{name}:{line}: `{key}` is written twice",
                f"the first one is on line {first}; the later would silently win",
                f"remove one of them, then: ./pqlab validate {name}",
            )
        marked.places[(*path, key)] = Place(name, line)
        mapping[key] = _build(value_node, (*path, key), marked, name)
    return mapping


def _scalar(node: yaml.Node, name: str) -> object:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError, LookupError) as error:
        # a date that is none, a number without digits, `!!x`
        line = node.start_mark.line + 1
        raise ScenarioError(
            "bad-value",
            f"{name}:{line}: `{node.value}` cannot be read as {node.tag.rpartition(':')[2]}",
            " ".join(str(error).split()),
            f"put text into quotes; then: ./pqlab validate {name}",
        ) from error
    finally:
        loader.dispose()
