"""Records: valid, complete, plausible, and exactly what their raw files give."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from statistics import fmean, median

import pqevidence
from pqevidence.kernel.claims import LIMITS, PHYSICAL_UNITS, fields_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.schema import schema_errors
from pqevidence.kernel.view import CellView, end_of
from pqevidence.record.raw import ROLES, Json, attempts_in, stamps_of_one_clock
from pqevidence.record.sheet import catalogue_of, record_schema
from pqevidence.records import OPTIONAL_FILES, record_from_raw
from pqevidence.scenario.conditions import keeps_ledger
from pqevidence.verify.older import MENDED, version_of
from pqevidence.versions import MADE_AGAIN

MAX_ATTEMPTS = 3
FIELD_KEYS = frozenset({"value", "unit", "source", "validity", "reason", "n"})
ROUNDING = 1e-6
PRIMITIVES = {
    ("keygen", "gcs"): "kem_keygen_ms",
    ("encaps", "drone"): "kem_encaps_ms",
    ("decaps", "gcs"): "kem_decaps_ms",
    ("sign", "gcs"): "sig_sign_ms",
    ("verify", "drone"): "sig_verify_ms",
    ("sign", "drone"): "drone_sign_ms",
    ("verify", "gcs"): "drone_sig_verify_ms",
}
SHARES = ("packet_loss_ratio", "packet_loss_up_ratio", "packet_delivery_ratio", "bulk_loss_ratio")


def schema(cell: CellView, tally: Tally) -> None:
    """Valid by record.schema.json; the fields, units and sources are those of the catalogue as the version
    had it that the run names, none missing and none that came later."""
    tally.see()
    categories = cell.record.get("categories")
    bare = {letter: {} for letter in categories} if isinstance(categories, dict) else categories
    for text in schema_errors({**cell.record, "categories": bare}, record_schema()):
        tally.fail(f"{cell.label}: {text}")
    for letter, category in catalogue_of(version_of(cell.run)).items():
        fields = cell.record["categories"][letter]
        for name, field in fields.items():
            if problem := field_problem(field):
                tally.fail(f"{cell.label}: {letter}.{name}: {problem}")
        odd = sorted(set(fields) ^ set(category.fields))
        tally.require(not odd, f"{cell.label}: {letter} differs from the catalogue in {', '.join(odd[:3])}")
        for name in set(fields) & set(category.fields):
            unit = category.fields[name].unit
            told = fields[name].get("unit")
            if told != unit:
                tally.fail(f"{cell.label}: {letter}.{name} in {told!r}, the catalogue has {unit!r}")


def field_problem(field: object) -> str | None:
    """What `$defs/field` of record.schema.json finds wrong with one field; None when it is valid.

    Written out because a record has 225 of them and the general validator takes 100 ms for that; a test holds
    both against each other.
    """
    if not isinstance(field, dict) or field.keys() != FIELD_KEYS:
        return f"needs exactly {', '.join(sorted(FIELD_KEYS))}"
    value, validity, reason, n = field["value"], field["validity"], field["reason"], field["n"]
    if not (value is None or isinstance(value, bool | int | float | str | dict)):
        return f"value is {type(value).__name__}"
    if not isinstance(field["unit"], str) or not isinstance(field["source"], str):
        return "unit and source are text"
    if not (reason is None or isinstance(reason, str)):
        return "reason is text or null"
    if not (n is None or (_whole(n) and n >= 0)):
        return f"n is {n!r}"
    if value is None:
        return None if validity == "null" and reason else "null needs validity null and a reason"
    if validity not in ("ok", "invalid", "model"):
        return f"validity is {validity!r}"
    return "invalid needs a reason" if validity == "invalid" and not reason else None


def _whole(value: object) -> bool:
    """JSON Schema's integer: 3 and 3.0, not true."""
    return not isinstance(value, bool) and (
        isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    )


def attempts(cell: CellView, tally: Tally) -> None:
    """As many attempts as are kept beside the last one; at most three, and three more for each time that
    failed cells were asked for again; each earlier one left its files."""
    folders = attempts_in(cell.folder)
    tally.see()
    told = int(cell.record["attempts"])
    due = 0 if cell.verdict in ("unsupported", "not-run") else len(folders) + 1
    tally.require(told == due, f"{cell.label}: {told} attempts, {due} are there")
    again = sum(1 for session in cell.run.sessions if session.get("rerun_failed"))
    most = MAX_ATTEMPTS * (1 + again)
    tally.require(told <= most, f"{cell.label}: {told} attempts, {most} are allowed")
    for folder in folders:
        tally.require((folder / "events.ndjson").is_file(), f"{cell.label}: {folder.name} is empty")


def raw_files(cell: CellView, tally: Tally) -> None:
    """A result has all its raw files: spans, counters, telemetry, events, and traffic with both ledgers."""
    scenario = cell.run.scenario
    carried = bool(scenario.get("traffic") or scenario.get("bulk"))
    exempt = set() if carried else set(OPTIONAL_FILES)
    condition = cell.run.condition(str(cell.plan["condition"]))
    if not carried or not keeps_ledger(scenario, condition):
        exempt |= {f"ledger.{role}.csv" for role in ROLES}
    absent = [name for name in cell.raw.missing if name not in exempt]
    tally.see()
    tally.require(not absent, f"{cell.label}: {', '.join(absent)} missing")


def medians(cell: CellView, tally: Tally) -> None:
    """Handshake and primitive times, coverage and counts, by another route than the record's own code."""
    walls: dict[str, list[int]] = {"drone": [], "gcs": []}
    steps: dict[tuple[str, str], list[int]] = {place: [] for place in PRIMITIVES}
    crypto: list[int] = []
    ratios: list[float] = []
    for hosts in cell.handshakes.values():
        wall = end_of(hosts, "drone").wall
        if wall is None:
            continue
        ground = end_of(hosts, "gcs").wall
        walls["drone"].append(wall.end_ns - wall.start_ns)
        if ground is not None:
            walls["gcs"].append(ground.end_ns - ground.start_ns)
        spent = dict.fromkeys(PRIMITIVES, 0)
        for host, spans in hosts.items():
            for span in spans.steps:
                if span.kind == "crypto":
                    place = span.step, host
                    spent[place] = spent.get(place, 0) + span.end_ns - span.start_ns
        for place in PRIMITIVES:
            if spent[place]:
                steps[place].append(spent[place])
        total = sum(spent.values())
        if total:
            crypto.append(total)
            ratios.append((wall.end_ns - wall.start_ns) / total)
    told: list[tuple[str, str, Sequence[float], float, Callable[[list[float]], float]]] = [
        ("D", "handshake_total_duration_ms", walls["drone"], 1e6, median),
        ("D", "handshake_gcs_duration_ms", walls["gcs"], 1e6, median),
        ("D", "handshake_min_ms", walls["drone"], 1e6, min),
        ("D", "handshake_max_ms", walls["drone"], 1e6, max),
        ("D", "handshake_over_crypto_ratio", ratios, 1.0, median),
        ("E", "crypto_critical_path_ms", crypto, 1e6, median),
        *[("E", field, steps[place], 1e6, median) for place, field in PRIMITIVES.items()],
        ("D", "pooled_handshake_duration_ms", _pooled_walls(cell, "drone"), 1e6, median),
        ("D", "pooled_handshake_gcs_duration_ms", _pooled_walls(cell, "gcs"), 1e6, median),
    ]
    for letter, name, values, scale, function in told:
        due = function([value / scale for value in values]) if values else None
        _compare(cell, tally, letter, name, due, len(values))
    if cell.plane.down is not None:
        traffic = cell.plane.down.windows.get("traffic")
        latency = [ns / 1e6 for ns in traffic.latency_ns] if traffic else []
        if latency and stamps_of_one_clock(cell.run, cell.raw):
            _compare(cell, tally, "H", "one_way_latency_p50_ms", median(latency), len(latency))
            _compare(cell, tally, "H", "one_way_latency_mean_ms", fmean(latency), len(latency))
        _compare(cell, tally, "G", "packets_sent_count", len(cell.raw.ledgers["drone"].tx), None)
    tally.unit = "fields"


def _pooled_walls(cell: CellView, host: str) -> list[int]:
    """Walls of one host in handshakes that both ends call pooled."""
    both = (hosts for hosts in cell.pooled.values() if {"drone", "gcs"} <= set(hosts))
    walls = (hosts[host].wall for hosts in both)
    return [wall.end_ns - wall.start_ns for wall in walls if wall is not None]


def _compare(
    cell: CellView, tally: Tally, letter: str, name: str, due: float | None, count: int | None
) -> None:
    category = cell.record["categories"][letter]
    if name not in category and due is None and cell.run.run.get("pqlab_version") != pqevidence.__version__:
        return  # a field that came later, of something that the cell did not do
    field = category[name]
    told = field["value"]
    tally.see()
    where = f"{cell.label} {letter}.{name}"
    if due is None or told is None:
        tally.require(due is None and told is None, f"{where}: {told}, the raw files give {due}")
        return
    near = abs(float(told) - due) <= ROUNDING * (1 + abs(due))
    tally.require(near, f"{where}: {told}, the raw files give {due:.6f}")
    if count is not None:
        tally.require(field["n"] == count, f"{where}: n {field['n']}, the raw files give {count}")


def rebuild(cell: CellView, tally: Tally) -> None:
    """The whole record, verdict included, is what its raw files give, with the fields that the run's version
    had. Where that version is not made again letter for letter, all is compared but the wording of reasons
    and the numbers that it worked out otherwise, with a warning."""
    made_by = version_of(cell.run)
    told = cell.record
    tally.see()
    made = record_from_raw(cell.raw, cell.plan, cell.run, cell.plane)
    if made_by == pqevidence.__version__ and made == told:
        return  # equal in every leaf, and with no NaN, which is equal to none; else leaf by leaf
    due = json.loads(json.dumps(made))
    due["categories"] = {
        letter: {name: due["categories"][letter][name] for name in category.fields}
        for letter, category in catalogue_of(made_by).items()
    }
    if made_by in MADE_AGAIN:
        for path, ours, theirs in differences(due, told):
            tally.fail(f"{cell.label}: {path} is {theirs!r}, the raw files give {ours!r}")
        return
    tally.warn(f"made by pqlab {made_by}, this is {pqevidence.__version__}: no word of a reason is compared")
    _same_but_words(cell, tally, due, told)


def _same_but_words(cell: CellView, tally: Tally, due: Json, told: Json) -> None:
    """A version may word a reason otherwise; what a field means is a matter of the format."""
    bare = [{key: value for key, value in record.items() if key != "categories"} for record in (due, told)]
    for path, ours, theirs in differences(bare[0], bare[1]):
        reworded = path == "reason" and isinstance(ours, str) and isinstance(theirs, str)
        tally.require(reworded, f"{cell.label}: {path} is {theirs!r}, the raw files give {ours!r}")
    mended = MENDED.get(version_of(cell.run), {})
    for letter, name, field in fields_of(told):
        again = due["categories"].get(letter, {}).get(name)
        if again is None:
            continue  # a field that there is not: `record_schema` says so
        where = f"{cell.label} {letter}.{name}: {field['value']}, the raw files give {again['value']}"
        if name in mended:
            limits = [due["categories"][letter][limit]["value"] for limit in mended[name]]
            if len(limits) == 2 and None not in (*limits, field["value"]):
                within = limits[0] - ROUNDING <= field["value"] <= limits[1] + ROUNDING
                tally.require(within, f"{where}, and all values lie between {limits[0]} and {limits[1]}")
            continue
        if name != "verdict_findings":
            tally.require(_alike(field["value"], again["value"]), where)
        for key in ("n", "validity"):
            told_here, ours = field[key], again[key]
            tally.require(told_here == ours, f"{where}; {key} {told_here!r} and {ours!r}")
        silent = (field["reason"] is None) != (again["reason"] is None)
        tally.require(not silent, f"{where}; reason {field['reason']!r}, due {again['reason']!r}")


def _alike(told: object, ours: object) -> bool:
    """The same value, numbers to what a record rounds to."""
    if isinstance(told, bool) or isinstance(ours, bool):
        return told == ours
    if isinstance(told, int | float) and isinstance(ours, int | float):
        return abs(told - ours) <= ROUNDING * (1 + abs(ours))
    return told == ours


def differences(due: object, told: object, path: str = "") -> list[tuple[str, object, object]]:
    """(path, due, told) of every leaf in which two JSON values differ."""
    if isinstance(due, dict) and isinstance(told, dict):
        found: list[tuple[str, object, object]] = []
        for key in sorted(set(due) | set(told)):
            inner = f"{path}/{key}".removeprefix("/").removeprefix("categories/")
            found += differences(due.get(key), told.get(key), inner)
        return found
    return [] if due == told else [(path, due, told)]


#: differences of two readings, which chance may turn either way
SIGNED = ("clock_offset_ms", "rekey_blackout_duration_ms", "rekey_blackout_share_pct")


def plausible(cell: CellView, tally: Tally) -> None:
    """Every number lies within what its unit allows; a null has a reason; shares lie in 0…1."""
    tally.see()
    for letter, name, field in fields_of(cell.record):
        value = field["value"]
        if value is None:
            if not field["reason"]:
                tally.fail(f"{cell.label} {letter}.{name}: null without a reason")
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or field["unit"] in PHYSICAL_UNITS:
            continue
        low, high = LIMITS.get(str(field["unit"]), (float("-inf"), float("inf")))
        low = -high if name in SIGNED else low
        high = 1.0 if name in SHARES else high
        if not low <= value <= high:
            tally.fail(f"{cell.label} {letter}.{name}: {value} {field['unit']}")
    ratio = cell.number("D", "handshake_over_crypto_ratio")
    tally.require(ratio is None or ratio >= 1.0, f"{cell.label}: a handshake shorter than its own primitives")
