"""Which of a scenario's cells are asked for: suites by glob, level, family and tag; conditions by name.

A filter that leaves nothing is an error: a typing slip must not shrink a campaign to nothing silently.
"""

from __future__ import annotations

from pqbase.documents import Json, part_of, rows_of, texts_of
from pqevidence.errors import ScenarioError, UsageError
from pqevidence.scenario.attacks import attacked
from pqevidence.scenario.check import nearest
from pqevidence.scenario.marks import KeyPath, MarkedYaml
from pqevidence.scenario.model import Overrides
from pqtunnel import suites as registry
from pqtunnel.errors import SuiteUnknown
from pqtunnel.suites import Suite


def select(data: Json, origins: dict[str, str], marked: MarkedYaml, asked: Overrides) -> None:
    """Expand every suite pattern to ids, and apply the filters of the command line. Changes `data`."""
    by_option = origins["suites"].startswith("--")
    chosen = _match(texts_of(data, "suites"), "--suites" if by_option else ("suites",), marked)
    for option, wanted, values_of in (
        ("--level", asked.levels, lambda s: {str(s.level)}),
        ("--family", asked.families, lambda s: {s.kem.family, s.sig.family, s.aead.token}),
        ("--tag", asked.tags, lambda s: {s.lifecycle}),
    ):
        if not wanted:
            continue
        known = sorted(set().union(*(values_of(suite) for suite in registry.ALL.values())))
        for value in wanted:
            if str(value) not in known:
                raise _unknown(option, str(value), known)
        chosen = [suite for suite in chosen if values_of(suite) & {str(value) for value in wanted}]
        origins["suites"] = " ".join(filter(None, (origins["suites"] if by_option else "", option)))
        by_option = True
    if not chosen:
        raise _nothing("no suite is left", "suites")
    data["suites"] = [suite.id for suite in chosen]
    _select_conditions(data, origins, marked, asked)
    if asked.only:
        for prefix in asked.only:
            if not prefix or len(prefix) > 16 or set(prefix) - set("0123456789abcdef"):
                raise UsageError(
                    "bad-only",
                    f"--only {prefix} is no beginning of a cell id",
                    "a cell id is 16 of the digits 0-9 and a-f",
                    "./pqlab plan lists the ids",
                )
        data["only"] = sorted(set(asked.only))
        origins["only"] = "--only"


def _select_conditions(data: Json, origins: dict[str, str], marked: MarkedYaml, asked: Overrides) -> None:
    kept: list[tuple[int, Json]] = []
    conditions = rows_of(data, "conditions")
    names = [str(condition["name"]) for condition in conditions]
    for name in asked.conditions or ():
        if name not in names:
            raise _unknown("--condition", name, names)
    there = set(texts_of(data, "suites"))
    for index, condition in enumerate(conditions):
        _expand(condition, index, marked)
        if asked.conditions is not None and condition["name"] not in asked.conditions:
            continue
        if condition["suites"] is not None:
            condition["suites"] = [suite for suite in texts_of(condition, "suites") if suite in there]
            if not condition["suites"]:
                continue  # the filters left it no suite
        kept.append((index, condition))
    if not kept:
        raise _nothing("no condition is left", "conditions")
    left = {condition["name"] for _, condition in kept}
    for _, condition in kept:
        if condition["aa_of"] is not None and condition["aa_of"] not in left:
            raise UsageError(
                "twin-alone",
                f"condition `{condition['name']}` is the A/A twin of `{condition['aa_of']}`",
                "a twin without the condition it repeats measures nothing",
                f"add --condition {condition['aa_of']}",
            )
    for index, condition in kept:
        _needs_handshakes(condition, index, data, marked)
    if len(kept) < len(names):
        _renumber(data, origins, [index for index, _ in kept])
    data["conditions"] = [condition for _, condition in kept]


def _needs_handshakes(condition: Json, index: int, data: Json, marked: MarkedYaml) -> None:
    """`plain` makes no handshake: what a condition does with one cannot take place there."""
    if registry.PLAIN.id not in texts_of(data if condition["suites"] is None else condition, "suites"):
        return
    asks = [key for key in ("rekey", "policy") if condition[key] != "none"]
    asks += ["detector"] if condition["detector"] != "none" else []
    asks += ["drone_auth"] if condition["drone_auth"] != "psk" else []
    # what is forged there cannot be told from what is not
    asks += ["attack"] if attacked(condition) else []
    asks += ["fleet"] if condition.get("fleet") else []
    asks += (
        ["events"]
        if any(e["kind"] in ("rekey", "request_rekey") for e in rows_of(condition, "events"))
        else []
    )
    if asks:
        place = marked.place(("conditions", index, asks[0]))
        raise ScenarioError(
            "plain-without-handshake",
            f"{place.file}:{place.line}: condition `{condition['name']}` sets `{asks[0]}` for suite plain",
            "plain makes no handshake and proves nothing, so nothing of the kind has a meaning in its cells",
            "name the condition's own `suites:` without plain",
        )


def _renumber(data: Json, origins: dict[str, str], kept: list[int]) -> None:
    """Origins of `conditions[old]…` become those of `conditions[new]…`."""
    moved: dict[str, str] = {}
    for path, origin in list(origins.items()):
        if not path.startswith("conditions["):
            continue
        number, _, rest = path.removeprefix("conditions[").partition("]")
        del origins[path]
        if int(number) in kept:
            moved[f"conditions[{kept.index(int(number))}]{rest}"] = origin
    origins.update(moved)


def _expand(condition: Json, index: int, marked: MarkedYaml) -> None:
    at: KeyPath = ("conditions", index)
    if condition["suites"] is not None:
        condition["suites"] = [s.id for s in _match(texts_of(condition, "suites"), (*at, "suites"), marked)]
    if condition["rekey"] != "none":
        # the order is the cycle's, so each is resolved by itself
        path = (*at, "rekey", "suites")
        rekey = part_of(condition, "rekey")
        rekey["suites"] = [
            suite.id for pattern in texts_of(rekey, "suites") for suite in _match([pattern], path, marked)
        ]
    for number, event in enumerate(rows_of(condition, "events")):
        if event["suite_id"] is not None:
            path = (*at, "events", number, "suite_id")
            event["suite_id"] = _match([str(event["suite_id"])], path, marked)[0].id


def _match(patterns: list[str], place: str | KeyPath, marked: MarkedYaml) -> list[Suite]:
    for index, pattern in enumerate(patterns):
        try:
            registry.match([pattern])
        except SuiteUnknown as error:
            if isinstance(place, str):
                where = place
            else:
                found = marked.place((*place, index))
                where = f"{found.file}:{found.line}"
            raise ScenarioError(
                "unknown-suite",
                f"{where}: no suite `{pattern}`",
                "it is neither an id of the registry nor a pattern that matches one",
                _which(error),
            ) from error
    return registry.match(patterns)


def _which(error: SuiteUnknown) -> str:
    """Next step for a suite that is not there; the command that lists them stands in it once."""
    hint = f"did you mean `{error.nearest}`?" if error.nearest else error.hint
    return hint if "./pqtunnel suites" in hint else f"{hint} ./pqtunnel suites lists them"


def _unknown(option: str, value: str, known: list[str]) -> UsageError:
    close = nearest(value, known)
    return UsageError(
        "unknown-filter",
        f"{option} {value} selects nothing",
        "there are: " + ", ".join(known),
        f"did you mean {option} {close}?" if close else f"give one of them to {option}",
    )


def _nothing(what: str, of: str) -> UsageError:
    return UsageError(
        "nothing-selected",
        f"{what} after the filters",
        f"together they exclude all {of} of the scenario",
        "leave one of --suites, --level, --family, --tag, --condition out",
    )
