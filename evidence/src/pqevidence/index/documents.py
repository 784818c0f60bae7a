"""The documents of a bundle that somebody sent, read before any is believed: rules that need no `verify`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NoReturn

import yaml

from pqbase.documents import Json, whole_of
from pqevidence.analysis.merged import DOCUMENT as MERGE
from pqevidence.bundle.attribution import FILE as ATTRIBUTION
from pqevidence.bundle.flown import MARK
from pqevidence.bundle.tarball import RUN_ID
from pqevidence.index.rules import Refused
from pqevidence.record.raw import AliasRefused, PlainLoader
from pqevidence.record.rings import RINGS
from pqevidence.verify.checks_ring import FIRST_REAL_NS
from pqevidence.verify.checks_text import FORBIDDEN, find_forbidden
from pqevidence.versions import KNOWN

ENDS: Final = ("drone", "gcs")
_TAGS = ("bagit.txt", "manifest-sha512.txt", "tagmanifest-sha512.txt")
_JSON = ("plan.json", "run.json", "providers.json", "hosts/drone.json", "hosts/gcs.json")
#: the plan of 360,000 cells has 70 MB and is refused; that of the largest shipped scenario has 200 kB
MAX_JSON_BYTES, MAX_YAML_BYTES = 32 << 20, 1 << 20
MAX_TEXT_CHARS = 200
#: objects and lists within each other; a run writes a dozen at most
MAX_DEPTH = 64
#: virtual time begins in 2000 and lasts as long as a campaign
_FIRST_SIM_NS, _LAST_SIM_NS = 946_684_800 * 10**9, 978_307_200 * 10**9
_LAST_NS = 4_102_444_800 * 10**9
_LONGEST_NS = 366 * 86_400 * 10**9
_SHOWN = re.compile(r"[ -~]*", re.ASCII)
_MARKUP = re.compile(r"[<>]|&#?\w+;|javascript:|data:", re.IGNORECASE)
_SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,63}", re.ASCII)


@dataclass(frozen=True)
class Documents:
    """plan.json, run.json, hosts by role, the scenario, and the licence where one is named."""

    plan: Json
    run: Json
    hosts: dict[str, Json]
    scenario: Json
    licence: str | None

    @property
    def scenario_name(self) -> str:
        """Of the plan; plans of 0.1.0 name none, so there the scenario's own."""
        return str(self.plan.get("scenario") or self.scenario.get("name") or "not named")

    @property
    def ring(self) -> str:
        return str(self.scenario.get("ring", "lab"))


def read_documents(root: Path) -> Documents:
    """Raises Refused for the first rule that is broken, in the order of the table."""
    data = root / "data"
    if (root / MARK).is_file() or (data / MARK).is_file():
        raise Refused("not_flown", "it was flown with a ground station: nothing in it was measured")
    if (data / "performance").is_dir() and not (data / "plan.json").exists():
        raise Refused("kind_known", "it is a bench bundle, which ./pqlab bench-report --check looks at")
    if (data / MERGE).exists():  # verify would look at its parts, and the pages show what lies beside them
        raise Refused("one_run", "it is a merge of several pairs: put the folders of its data/parts here")
    for name in _TAGS:
        if not (root / name).is_file():
            raise Refused("sealed", f"{name} is missing")
    read = {name: _object(data / name) for name in _JSON}
    told = Documents(
        plan=read["plan.json"],
        run=read["run.json"],
        hosts={role: read[f"hosts/{role}.json"] for role in ENDS},
        scenario=_scenario(data / "scenario.effective.yml"),
        licence=_licence(data / ATTRIBUTION),
    )
    _version(told)
    _run_id(told)
    if told.ring not in RINGS:
        raise Refused("ring_known", f"scenario.effective.yml says ring {told.ring}")
    _dates(told)
    _texts(told)
    for role in ENDS:
        facts = told.hosts[role].get("host")
        for fact in ("machine", "cpu_model"):
            if not isinstance(facts, dict) or not isinstance(facts.get(fact), str) or not facts[fact].strip():
                raise Refused("machine_told", f"hosts/{role}.json does not say {fact}")
    if told.licence is not None and not _SPDX.fullmatch(told.licence):
        raise Refused("licence_form", f"the licence reads {told.licence}")
    return told


def end_ns(told: Documents) -> int:
    """When the run ended, checked by `dates_sane`."""
    return whole_of(told.run, "ended_ns")


# ------------------------------------------------------------------ reading


def _bytes(path: Path, most: int) -> str:
    name = path.name
    try:
        if path.stat().st_size > most:
            raise Refused("documents_read", f"{name} has {path.stat().st_size:,} bytes")
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        raise Refused("documents_read", f"{name} is missing") from error
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("documents_read", f"{name} cannot be read: {error}") from error


def _object(path: Path) -> Json:
    text = _bytes(path, MAX_JSON_BYTES)

    def once(pairs: list[tuple[str, object]]) -> Json:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise Refused("documents_plain", f"{path.name} says {twice} twice")
        return found

    def constant(name: str) -> NoReturn:
        raise Refused("documents_plain", f"{path.name} holds {name}")

    def finite(digits: str) -> float:
        return float(digits) if math.isfinite(float(digits)) else constant(digits)

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=constant, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise Refused("documents_read", f"{path.name} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise Refused("documents_read", f"{path.name} holds no object")
    _require_flat(path, value)
    return value


def _scenario(path: Path) -> Json:
    text = _bytes(path, MAX_JSON_BYTES)
    if len(text) > MAX_YAML_BYTES:
        raise Refused("documents_plain", f"{path.name} has {len(text):,} characters")
    try:
        value = yaml.load(text, Loader=PlainLoader)
    except AliasRefused as error:
        raise Refused("documents_plain", f"{path.name}: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Refused("documents_read", f"{path.name} is no YAML: {error}") from error
    if not isinstance(value, dict):
        raise Refused("documents_read", f"{path.name} holds no mapping")
    _require_flat(path, value)
    return value


def _require_flat(path: Path, value: object) -> None:
    """Whoever walks the document later is not to fail half-way down, in the process that makes the pages."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise Refused("documents_read", f"{path.name} is nested deeper than {MAX_DEPTH} levels")


def _licence(path: Path) -> str | None:
    if not path.exists():
        return None
    told = _object(path).get("license")
    return "" if told is None else str(told)


# ------------------------------------------------------------------ rules


def _version(told: Documents) -> None:
    made_by = told.run.get("pqlab_version")
    if made_by not in KNOWN:
        raise Refused("version_known", f"run.json says pqlab {made_by}, known are {', '.join(KNOWN)}")


def _run_id(told: Documents) -> None:
    ids = [told.plan.get("run_id"), told.run.get("run_id")]
    if not isinstance(ids[0], str) or not RUN_ID.fullmatch(ids[0]) or ids[0] != ids[1]:
        raise Refused("run_id_form", f"plan.json says {ids[0]}, run.json {ids[1]}")


def _dates(told: Documents) -> None:
    started, ended = told.run.get("started_ns"), told.run.get("ended_ns")
    for name, value in (("started_ns", started), ("ended_ns", ended)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise Refused("dates_sane", f"run.json: {name} is {value}")
    assert isinstance(started, int) and isinstance(ended, int)
    # a correction is made in real time, however long after its cells were planned
    corrected = told.run.get("corrects") is not None
    virtual = told.ring == "sim" and not corrected
    first, last = (_FIRST_SIM_NS, _LAST_SIM_NS) if virtual else (FIRST_REAL_NS, _LAST_NS)
    if not first <= started < last:
        raise Refused("dates_sane", f"a run of ring {told.ring} that began at {_utc(started)}")
    if not started <= ended <= started + _LONGEST_NS:
        raise Refused("dates_sane", f"it began at {_utc(started)} and ended at {_utc(ended)}")
    try:
        stamp = datetime.strptime(str(told.plan["run_id"])[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        created = datetime.strptime(str(told.plan.get("created_utc")), "%Y-%m-%dT%H:%M:%SZ").replace(
            tzinfo=UTC
        )
    except ValueError as error:
        raise Refused("dates_sane", f"plan.json has no date that there is: {error}") from error
    for name, when in (("the run id", stamp), ("created_utc", created)):
        begun = datetime.fromtimestamp(started // 10**9, UTC)
        earlier = corrected and name == "created_utc" and when <= begun
        if abs(when - begun) > timedelta(days=1) and not earlier:
            raise Refused("dates_sane", f"{name} says {when:%Y-%m-%d}, run.json {begun:%Y-%m-%d}")


def _utc(ns: int) -> str:
    try:
        return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%d}"
    except (OverflowError, ValueError, OSError):
        return f"{ns} ns"


def _shown_texts(told: Documents) -> Iterator[tuple[str, object]]:
    """(where, text) of everything that the index can show."""
    yield "the scenario's name", told.scenario_name
    yield "the scenario's title", told.scenario.get("title")
    for part in (told.plan, told.scenario):
        listed = part.get("conditions")
        for condition in listed if isinstance(listed, list) else []:
            yield "a condition", condition.get("name") if isinstance(condition, dict) else condition
    cells = told.plan.get("cells")
    for cell in cells if isinstance(cells, list) else []:
        for key in ("suite_id", "condition"):
            yield f"{key} of a cell", cell.get(key) if isinstance(cell, dict) else cell
    for role in ENDS:
        host = told.hosts[role].get("host")
        for key, value in (host if isinstance(host, dict) else {}).items():
            if isinstance(value, str):
                yield f"{key} of the {role}", value
        for key in ("dataplane", "timestamp_source"):
            yield f"{key} of the {role}", told.hosts[role].get(key)
    if told.licence is not None:
        yield "the licence", told.licence


def _texts(told: Documents) -> None:
    for where, text in _shown_texts(told):
        if not isinstance(text, str):
            continue
        if len(text) > MAX_TEXT_CHARS or not _SHOWN.fullmatch(text) or _MARKUP.search(text):
            raise Refused("text_plain", f"{where} reads {text}")
        for forbidden in FORBIDDEN:
            if find_forbidden(text.encode(), forbidden) is not None:
                raise Refused("text_private", f"{where} holds {forbidden.what}")
