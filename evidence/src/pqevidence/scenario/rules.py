"""What a scenario says of itself in two places must agree: rules that a schema cannot hold."""

from __future__ import annotations

from collections.abc import Iterator

from pqattack.errors import SettingsError
from pqbase.documents import Json, number_of, numbers_of, part_of, part_or_none, rows_of, whole_of
from pqevidence.scenario.attacks import MAX_CELL_S, attack_events, episode_of
from pqevidence.scenario.check import Problem, nearest
from pqevidence.scenario.conditions import routed, settings_of
from pqevidence.scenario.marks import KeyPath, MarkedYaml
from pqsitl.errors import SpecError
from pqsitl.steps import amiss, steps_of
from pqtunnel.errors import TunnelError
from pqtunnel.inflight import Policy

#: keys an event of this kind cannot do without, and keys it may have besides
_EVENT_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "link": (("for_s", "link"), ()),
    "partition": (("for_s",), ()),
    "peer_kill": (("role",), ()),
    "power_cycle": (("role",), ()),
    "clock_offset": (("role", "offset_ms"), ("for_s",)),
    "sensor_stall": (("role", "for_s"), ()),
    "disk_full": ((), ("for_s",)),
    "rekey": ((), ("suite_id",)),
    "request_rekey": ((), ("suite_id",)),
    "policy_input": (("values",), ()),
    "attack": (("for_s", "attack"), ()),
    "ground_pause": (("for_s",), ()),
}
_EVENT_OPTIONS = ("for_s", "role", "offset_ms", "link", "attack", "suite_id", "values")


def cross_check(data: Json, marked: MarkedYaml) -> list[Problem]:
    """Contradictions of a complete scenario, in the order of its blocks."""
    return [
        *_handshake(data, marked),
        *_traffic(data, marked),
        *_workload(data, marked),
        *_names(data, marked),
        *_twins(data, marked),
        *_timed(data, marked),
        *_attacks(data, marked),
        *_policies(data, marked),
        *_detectors(data, marked),
    ]


def _handshake(data: Json, marked: MarkedYaml) -> Iterator[Problem]:
    shake = part_of(data, "handshake")
    if whole_of(shake, "min_count") > whole_of(shake, "count"):
        yield Problem(
            marked.place(("handshake", "min_count")),
            f"`handshake.min_count` {shake['min_count']} is above `handshake.count` {shake['count']}",
            "the least number of handshakes cannot exceed the wanted one",
            "lower min_count or raise count.",
        )


def _traffic(data: Json, marked: MarkedYaml) -> Iterator[Problem]:
    traffic = part_or_none(data, "traffic")
    if traffic and traffic["source"] == "tlog" and not traffic["path"]:
        yield Problem(
            marked.place(("traffic", "source")),
            "`traffic.path` is missing for source tlog",
            "a replay needs its recording",
            "add `path:` under `traffic`.",
        )
    if traffic and traffic.get("tlog") and traffic["route"] != "mavproxy":
        yield Problem(
            marked.place(("traffic", "tlog")),
            f"`traffic.tlog` has nothing to keep on route {traffic['route']}",
            "the frames come to the ground's traffic service through MAVProxy",
            "write `route: mavproxy`, or remove `tlog`.",
        )


def _workload(data: Json, marked: MarkedYaml) -> Iterator[Problem]:
    traffic = part_of(data, "traffic", {})
    steps = rows_of(traffic, "workload", [])
    if not steps:
        return
    at: KeyPath = ("traffic", "workload")
    for key, wanted, why in (
        ("source", "embedded", "another vehicle keeps no count of what it answered, or leaves its hover"),
        ("route", "mavproxy", "the ground's program reaches the vehicle through MAVProxy"),
    ):
        if traffic[key] != wanted:
            yield Problem(
                marked.place(at),
                f"`traffic.workload` needs `{key}: {wanted}`, not {traffic[key]}",
                why,
                f"write `{key}: {wanted}`, or remove `workload`.",
            )
    session_s = number_of(traffic, "session_s")
    uploaded_s: float | None = None
    for number, step in enumerate(steps):
        here: KeyPath = (*at, number)
        kind, at_s = str(step["kind"]), number_of(step, "at_s")
        if told := amiss(kind, step):
            yield Problem(marked.place(here), f"step `{kind}` {told[0]}", "of that kind", f"{told[1]}.")
            continue
        what = f"step `{kind}`"
        yield from _in_session(here, what, at_s, number_of(step, "for_s", 0.0), session_s, marked)
        if kind == "mission_upload":
            uploaded_s = at_s if uploaded_s is None else min(at_s, uploaded_s)
    for number, step in enumerate(steps):
        asks = step["kind"] == "auto" or step["mode"] == "AUTO"
        if asks and (uploaded_s is None or uploaded_s >= number_of(step, "at_s")):
            yield Problem(
                marked.place((*at, number)),
                f"step `{step['kind']}` asks for AUTO and no mission is there",
                "the vehicle refuses AUTO without one",
                "add a `mission_upload` before it.",
            )
    try:
        steps_of(steps)
    except SpecError as error:
        if not any(amiss(str(step["kind"]), step) for step in steps):
            yield Problem(
                marked.place(at),
                f"`traffic.workload`: {error}",
                "the ground would refuse it",
                f"{error.hint}.",
            )


def _names(data: Json, marked: MarkedYaml) -> Iterator[Problem]:
    names = [c["name"] for c in rows_of(data, "conditions")]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Problem(
                marked.place(("conditions", index, "name")),
                f"condition `{name}` is written twice",
                "a condition's name is part of its cells' identity",
                "give each condition its own name.",
            )


def _twins(data: Json, marked: MarkedYaml) -> Iterator[Problem]:
    by_name = {str(c["name"]): c for c in rows_of(data, "conditions")}
    for index, condition in enumerate(rows_of(data, "conditions")):
        at: KeyPath = ("conditions", index)
        named = numbers_of(condition, "repetitions") if condition["repetitions"] else []
        for repetition in named:
            if repetition > whole_of(data, "repetitions"):
                yield Problem(
                    marked.place((*at, "repetitions")),
                    f"condition `{condition['name']}` names repetition {repetition} of {data['repetitions']}",
                    "its cells would be left out silently",
                    "lower it, or raise `repetitions`.",
                )
        if condition["aa_of"] is None:
            continue
        wanted = str(condition["aa_of"])
        base = by_name.get(wanted)
        if base is None or base["aa_of"] is not None or base is condition:
            close = nearest(wanted, [n for n, c in by_name.items() if c["aa_of"] is None])
            yield Problem(
                marked.place((*at, "aa_of")),
                f"`aa_of` of condition `{condition['name']}` names `{wanted}`",
                "a twin repeats another condition, which is no twin itself",
                f"did you mean `{close}`?" if close else "name a condition of this scenario.",
            )
            continue
        ours, theirs = settings_of(condition), settings_of(base)
        both = dict.fromkeys([*ours, *theirs])
        differs = [k for k in both if k not in ("name", "aa_of") and ours.get(k) != theirs.get(k)]
        if differs:
            yield Problem(
                marked.place((*at, differs[0])),
                f"A/A twin `{condition['name']}` differs from `{wanted}` in `{differs[0]}`",
                "a twin measures noise, so nothing but its name may differ",
                f"write `{differs[0]}` as in `{wanted}`, or remove `aa_of`.",
            )


def _detectors(data: Json, marked: MarkedYaml) -> Iterator[Problem]:
    """A detector needs a session to watch."""
    for index, condition in enumerate(rows_of(data, "conditions")):
        if condition["detector"] != "none" and data["traffic"] is None:
            place = marked.place(("conditions", index, "detector"))
            yield Problem(
                place,
                f"condition `{condition['name']}` has a detector and the scenario no `traffic`",
                "there would be nothing to watch",
                "add `traffic:`, or `detector: none`.",
            )


def _policies(data: Json, marked: MarkedYaml) -> Iterator[Problem]:
    for index, condition in enumerate(rows_of(data, "conditions")):
        place = marked.place(("conditions", index, "policy"))
        if condition["policy"] == "none":
            if any(event["kind"] == "policy_input" for event in rows_of(condition, "events")):
                yield Problem(
                    marked.place(("conditions", index, "events")),
                    f"condition `{condition['name']}` has `policy_input` and no `policy`",
                    "nothing would listen to it",
                    "add `policy:`, or remove the event.",
                )
            continue
        try:
            Policy.from_json(part_of(condition, "policy"))
        except TunnelError as error:
            yield Problem(
                place,
                f"`policy` of condition `{condition['name']}`: {error}",
                "it could not be carried out as written",
                f"{error.hint}",
            )
        if condition["rekey"] != "none":
            yield Problem(
                place,
                f"condition `{condition['name']}` has both `policy` and `rekey`",
                "each of them decides when to rekey",
                "keep one of the two.",
            )


def _timed(data: Json, marked: MarkedYaml) -> Iterator[Problem]:
    session_s = _session_s(data)
    for index, condition in enumerate(rows_of(data, "conditions")):
        at: KeyPath = ("conditions", index)
        if condition["rekey"] != "none":
            start_s = number_of(part_of(condition, "rekey"), "start_s")
            yield from _in_session((*at, "rekey"), "the first rekey", start_s, 0.0, session_s, marked)
        if any(event["kind"] == "peer_kill" for event in rows_of(condition, "events")):
            yield from _killed(data, condition, (*at, "events"), marked)
        for number, event in enumerate(rows_of(condition, "events")):
            here: KeyPath = (*at, "events", number)
            needed, allowed = _EVENT_KEYS[str(event["kind"])]
            for key in needed:
                if event[key] is None:
                    yield Problem(
                        marked.place(here),
                        f"event `{event['kind']}` lacks `{key}`",
                        "it has no default",
                        f"add `{key}:`",
                    )
            for key in _EVENT_OPTIONS:
                if event[key] is not None and key not in (*needed, *allowed):
                    yield Problem(
                        marked.place((*here, key)),
                        f"event `{event['kind']}` takes no `{key}`",
                        "it takes: " + (", ".join((*needed, *allowed)) or "at_s only"),
                        f"remove `{key}`.",
                    )
            at_s, for_s = number_of(event, "at_s"), number_of(event, "for_s", 0.0)
            yield from _in_session(here, f"event `{event['kind']}`", at_s, for_s, session_s, marked)


def _killed(data: Json, condition: Json, at: KeyPath, marked: MarkedYaml) -> Iterator[Problem]:
    """An end that is killed has no account of the windows after it, and its network is a new one: what link
    and attacker set up in the old one is gone."""
    name, kills = condition["name"], [e for e in rows_of(condition, "events") if e["kind"] == "peer_kill"]
    for found, what, way in (
        (len(kills) > 1, "two kills", "keep one of them; another condition may have the other"),
        (bool(data["bulk"]), "`peer_kill` in a scenario with `bulk`", "make it a scenario without `bulk`"),
        (condition["detector"] != "none", "`peer_kill` and a detector", "write `detector: none`"),
        (routed(condition), "`peer_kill` and a link", "let another condition have the link"),
        (
            bool(attack_events(condition)),
            "`peer_kill` and an attack",
            "let another condition have the attack",
        ),
    ):
        if found:
            yield Problem(
                marked.place(at),
                f"condition `{name}` has {what}",
                "what a killed end counted is gone, so nothing after it could be judged",
                f"{way}.",
            )


def _attacks(data: Json, marked: MarkedYaml) -> Iterator[Problem]:
    """What the attacker would refuse, or could not carry out, is said before anything runs."""
    session_s = _session_s(data)
    for index, condition in enumerate(rows_of(data, "conditions")):
        at: KeyPath = ("conditions", index)
        if condition["attack"] != "none":
            own = part_of(condition, "attack")
            if own["for_s"] is None:
                yield Problem(
                    marked.place((*at, "attack")),
                    "`attack` lacks `for_s`",
                    "nothing is sent without an end",
                    "add `for_s:`",
                )
                continue
            begin_s, for_s = number_of(own, "start_s", 0.0), number_of(own, "for_s")
            yield from _in_session((*at, "attack"), "the attack", begin_s, for_s, session_s, marked)
        for number, event in enumerate(rows_of(condition, "events")):
            for key in ("start_s", "for_s") if event["kind"] == "attack" and event["attack"] else ():
                if part_of(event, "attack")[key] is not None:
                    yield Problem(
                        marked.place((*at, "events", number, "attack", key)),
                        f"the `attack` of an event takes no `{key}`",
                        "the event's own at_s and for_s say when",
                        f"remove `{key}`.",
                    )
        yield from _episodes(condition, at, marked)


def _episodes(condition: Json, at: KeyPath, marked: MarkedYaml) -> Iterator[Problem]:
    place, name, busy_until_s, total_s = marked.place((*at, "attack")), condition["name"], 0.0, 0.0
    for event in attack_events(condition):
        if event["for_s"] is None or not event["attack"]:
            continue  # said elsewhere, with its line
        try:
            episode = episode_of(event, 0)
        except SettingsError as error:
            yield Problem(
                place, f"attack of condition `{name}`: {error}", "the attacker would refuse it", error.hint
            )
            continue
        if episode.path == "link" and not routed(condition):
            yield Problem(
                place,
                f"condition `{name}` attacks over the link and has none",
                "there is no router whose queues it could share",
                "add `link: {}`, or `path: direct`.",
            )
        at_s = number_of(event, "at_s")
        if at_s < busy_until_s:
            yield Problem(
                place,
                f"two attacks of condition `{name}` overlap at {at_s:g} s",
                "there is one attacker",
                "let one begin after the other has ended.",
            )
        busy_until_s = at_s + episode.for_s
        total_s += episode.for_s
    if total_s > MAX_CELL_S:
        yield Problem(
            place,
            f"condition `{name}` attacks for {total_s:g} s in all",
            f"a cell holds at most {MAX_CELL_S:g} s of it",
            "shorten the episodes.",
        )


def _session_s(data: Json) -> float | None:
    traffic = part_or_none(data, "traffic")
    return number_of(traffic, "session_s") if traffic else None


def _in_session(
    at: KeyPath, what: str, begin_s: float, for_s: float, session_s: float | None, marked: MarkedYaml
) -> Iterator[Problem]:
    """What never happens, or is cut short by the end of the session, is not what the condition claims."""
    if session_s is None:
        yield Problem(
            marked.place(at), f"{what} needs a MAVLink session", "the scenario has none", "add `traffic:`"
        )
    elif begin_s >= session_s or begin_s + for_s > session_s:
        ends_s = begin_s + for_s
        yield Problem(
            marked.place(at),
            f"{what} lasts until {ends_s:g} s, the session {session_s:g} s",
            "it would not take place as written",
            "lengthen `traffic.session_s`, or let it begin earlier.",
        )
