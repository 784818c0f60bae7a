"""Overlays and base scenarios: several files become one document whose values know file and line.

baseline ⊕ overlay ⊕ overlay: mappings merge key by key, anything else is replaced by what comes later.
An overlay's `condition` is laid over every condition there is so far (their names grow by `+overlay`), its
`events` are added to theirs; its `conditions` are added as they stand.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

from pqbase.documents import Json, part_of, rows_of
from pqevidence.errors import ScenarioError, UsageError
from pqevidence.paths import project_root, shown
from pqevidence.scenario.check import nearest, overlay_schema, problems, raise_for
from pqevidence.scenario.marks import KeyPath, MarkedYaml, Place, read_marked

_FOLDER = "overlays"
#: deeper than anybody reads; a longer chain is a circle
_MOST_FILES = 20
_DEFAULT_CONDITIONS = [{"name": "baseline"}]
#: keys of an overlay that are not values of the scenario
_OWN_KEYS = ("schema", "name", "title", "condition", "conditions")


def available_scenarios(root: Path | None = None) -> dict[str, Path]:
    """Name → file of the scenarios shipped in `scenarios/`."""
    return {f.stem: f for f in sorted(((root or project_root()) / "scenarios").glob("*.yml"))}


def available_overlays(root: Path | None = None) -> dict[str, Path]:
    """Name → file of the overlays shipped in `scenarios/overlays/`."""
    return {f.stem: f for f in sorted(((root or project_root()) / "scenarios" / _FOLDER).glob("*.yml"))}


def find_file(name_or_path: str, known: dict[str, Path], what: str, beside: Path | None = None) -> Path:
    """The file of a scenario or overlay given by name (`smoke`) or path. Raises UsageError: nearest name."""
    as_path = Path(name_or_path)
    if as_path.suffix in (".yml", ".yaml") or as_path.is_file():
        for candidate in ([beside / as_path] if beside is not None else []) + [as_path]:
            if candidate.is_file():
                return candidate
        raise UsageError(
            f"no-{what}",
            f"there is no file {name_or_path}",
            "a name with .yml is taken for a path",
            f"./pqlab validate lists the shipped {what}s",
        )
    if name_or_path in known:
        return known[name_or_path]
    close = nearest(name_or_path, list(known))
    raise UsageError(
        f"no-{what}",
        f"there is no {what} `{name_or_path}`",
        "shipped: " + (", ".join(known) or "none"),
        f"did you mean `{close}`?" if close else "give one of them, or the path of a .yml file",
    )


def compose(file: Path, overlays: Sequence[str] = ()) -> tuple[MarkedYaml, list[str]]:
    """The document of `file` with its base and overlays, then `overlays` of the command line; and, when
    there is more than one file, their names in the order in which they were laid."""
    sources: list[str] = []
    document = _with_base(file, sources)
    for name in overlays:
        _lay(document, read_overlay(name, None), sources)
    return document, sources if len(sources) > 1 else []


def read_overlay(name: str, beside: Path | None) -> MarkedYaml:
    """One overlay by name or path. Raises ScenarioError for what its schema refuses."""
    marked = read_marked(find_file(name, available_overlays(), "overlay", beside))
    raise_for(problems(marked, overlay_schema()))
    named = str(marked.data["name"])
    marked.places = {path: Place(p.file, p.line, named) for path, p in marked.places.items()}
    return marked


def _with_base(file: Path, sources: list[str]) -> MarkedYaml:
    if len(sources) > _MOST_FILES:
        raise ScenarioError(
            "extends-circle",
            f"{shown(file)}: `extends` leads back to itself",
            " → ".join(sources[:3]) + " → …",
            f"correct `extends` in {shown(file)}",
        )
    marked = read_marked(file)
    name = shown(file)
    base_name = _text("extends", marked.data.pop("extends", None), marked)
    overlays = _texts(("overlays",), marked.data.pop("overlays", []), marked)
    sources.append(name)
    if base_name is not None:
        try:
            base_file = find_file(base_name, available_scenarios(), "scenario", file.parent)
        except UsageError as error:
            raise _at(marked.place(("extends",)), error) from error
        document = _with_base(base_file, sources)
        document.file = file
        document.places[()] = marked.place(())
        for key in marked.data:
            if key == "conditions":
                _graft(document, (key,), marked, (key,))
            else:
                _merge(document, (key,), marked, (key,))
    else:
        document = marked
    for index, overlay in enumerate(overlays):
        try:
            found = read_overlay(overlay, file.parent)
        except ScenarioError:
            raise
        except UsageError as error:
            raise _at(marked.place(("overlays", index)), error) from error
        _lay(document, found, sources)
    _lay_in_conditions(document, file.parent)
    return document


def _lay(document: MarkedYaml, overlay: MarkedYaml, sources: list[str]) -> None:
    """One overlay over the whole document."""
    sources.append(f"overlay {overlay.data['name']}")
    for key in overlay.data:
        if key not in _OWN_KEYS:
            _merge(document, (key,), overlay, (key,))
    conditions = document.data.setdefault("conditions", copy.deepcopy(_DEFAULT_CONDITIONS))
    if not isinstance(conditions, list):
        return  # the schema says so, with its line
    if "condition" in overlay.data:
        suffix = f"+{overlay.data['name']}"
        for index, condition in enumerate(conditions):
            if not isinstance(condition, dict) or not isinstance(condition.get("name"), str):
                continue
            _lay_on_condition(document, index, overlay, replace=True)
            condition["name"] += suffix
            document.places[("conditions", index, "name")] = overlay.place(("name",))
            if isinstance(condition.get("aa_of"), str):
                condition["aa_of"] += suffix
    for index in range(len(rows_of(overlay.data, "conditions", []))):
        conditions.append(None)
        _graft(document, ("conditions", len(conditions) - 1), overlay, ("conditions", index))


def _lay_in_conditions(document: MarkedYaml, beside: Path) -> None:
    """`overlays` of single conditions: laid under what the condition itself says, its name unchanged."""
    conditions = document.data.get("conditions")
    for index, condition in enumerate(conditions if isinstance(conditions, list) else []):
        if not isinstance(condition, dict):
            continue
        at: KeyPath = ("conditions", index, "overlays")
        names = _texts(at, condition.pop("overlays", []), document)
        for number, name in reversed(list(enumerate(names))):
            place = document.place((*at, number))
            try:
                overlay = read_overlay(name, beside)
            except ScenarioError:
                raise
            except UsageError as error:
                raise _at(place, error) from error
            other = [key for key in overlay.data if key not in ("schema", "name", "title", "condition")]
            if other:
                raise ScenarioError(
                    "overlay-too-wide",
                    f"{place.file}:{place.line}: overlay `{name}` sets more than a condition",
                    f"it holds `{other[0]}`, which is of the whole scenario",
                    "name it in the scenario's own `overlays:`, or with --with",
                )
            _lay_on_condition(document, index, overlay, replace=False)


def _lay_on_condition(document: MarkedYaml, index: int, overlay: MarkedYaml, *, replace: bool) -> None:
    condition = _mapping(_value(document.data, ("conditions", index)))
    for key, value in part_of(overlay.data, "condition", {}).items():
        at: KeyPath = ("conditions", index, key)
        told = condition.get(key)
        if key == "events" and isinstance(told, list) and isinstance(value, list):
            for number in range(len(value)):
                told.append(None)
                _graft(document, (*at, len(told) - 1), overlay, ("condition", key, number))
        elif replace or key not in condition:
            _merge(document, at, overlay, ("condition", key))
        elif isinstance(told, dict) and isinstance(value, dict):
            _fill(document, at, overlay, ("condition", key))


# ---------------------------------------------------------------------- values and their places together


def _value(data: object, path: KeyPath) -> object:
    for part in path:
        data = data[part] if isinstance(data, list) and isinstance(part, int) else _mapping(data)[str(part)]
    return data


def _mapping(value: object) -> Json:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is no mapping")
    return value


def _graft(target: MarkedYaml, at: KeyPath, source: MarkedYaml, path: KeyPath) -> None:
    """The value at `path` of `source` becomes the one at `at` of `target`, with the places of its parts."""
    holder, last = _value(target.data, at[:-1]), at[-1]
    new = copy.deepcopy(_value(source.data, path))
    if isinstance(holder, list) and isinstance(last, int):
        holder[last] = new
    else:
        _mapping(holder)[str(last)] = new
    for old in [p for p in target.places if p[: len(at)] == at]:
        del target.places[old]
    for known, place in source.places.items():
        if known[: len(path)] == path:
            target.places[(*at, *known[len(path) :])] = place


def _merge(target: MarkedYaml, at: KeyPath, source: MarkedYaml, path: KeyPath) -> None:
    """Mappings key by key; anything else is replaced."""
    holder = _mapping(_value(target.data, at[:-1]))
    new = _value(source.data, path)
    if isinstance(holder.get(str(at[-1])), dict) and isinstance(new, dict):
        for key in new:
            _merge(target, (*at, key), source, (*path, key))
    else:
        _graft(target, at, source, path)


def _fill(target: MarkedYaml, at: KeyPath, source: MarkedYaml, path: KeyPath) -> None:
    """What `target` does not say itself, key by key."""
    mine, theirs = _mapping(_value(target.data, at)), _mapping(_value(source.data, path))
    for key in theirs:
        if key not in mine:
            _graft(target, (*at, key), source, (*path, key))
        elif isinstance(mine[key], dict) and isinstance(theirs[key], dict):
            _fill(target, (*at, key), source, (*path, key))


# ---------------------------------------------------------------------- errors


def _at(place: Place, error: UsageError) -> ScenarioError:
    return ScenarioError(error.code, f"{place.file}:{place.line}: {error.what}", error.why, error.hint)


def _text(key: str, value: object, marked: MarkedYaml) -> str | None:
    if value is not None and not (isinstance(value, str) and value):
        raise _wrong(marked.place((key,)), f"`{key}` must be the name of a scenario, not {value!r}", key)
    return value


def _texts(path: KeyPath, value: object, marked: MarkedYaml) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        at = ".".join(str(part) for part in path)
        raise _wrong(marked.place(path), f"`{at}` must be a list of overlay names, not {value!r}", at)
    return value


def _wrong(place: Place, what: str, key: str) -> ScenarioError:
    return ScenarioError(
        "scenario-invalid",
        f"{place.file}:{place.line}: {what}",
        "shipped overlays: " + (", ".join(available_overlays()) or "none"),
        f"correct the value of `{key}`. Correct line {place.line}, then: ./pqlab validate {place.file}",
    )
