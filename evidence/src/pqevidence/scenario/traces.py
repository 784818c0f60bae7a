"""Radio traces that conditions name: found, read and named by digest before anything runs.

The effective scenario holds the digest and the file's own name, never its folder: the digest is what decides,
and the file itself goes into the bundle (`traces/<sha256>.csv`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pqbase.documents import Json, part_of, rows_of
from pqevidence.paths import project_root, shown
from pqevidence.scenario.check import Problem
from pqevidence.scenario.conditions import traces_of
from pqevidence.scenario.marks import KeyPath, MarkedYaml
from pqlink.errors import LinkError
from pqlink.settings import Side
from pqlink.trace import Trace, parse_trace

#: of the shipped ones, under scenarios/
FOLDER = "traces"
_CHANGING = ("link", "partition")


def resolve(data: Json, origins: dict[str, str], marked: MarkedYaml) -> tuple[dict[str, Path], list[Problem]]:
    """Puts the digest of its file into every `trace` block; digest → file, and what is wrong."""
    files: dict[str, Path] = {}
    found: list[Problem] = []
    for index, condition in enumerate(rows_of(data, "conditions")):
        for way, block in traces_of(condition).items():
            at: KeyPath = ("conditions", index, "link", way, "trace")
            read = _read(block, at, marked)
            if isinstance(read, Problem):
                found.append(read)
                continue
            file, trace = read
            told = block.get("sha256")
            dotted = f"conditions[{index}].link.{way}.trace.sha256"
            origins.setdefault(dotted, origins[dotted.removesuffix("sha256") + "file"])
            order = {"file": file.name, "sha256": trace.sha256}
            part_of(part_of(condition, "link"), way)["trace"] = {
                **order,
                **{k: v for k, v in block.items() if k not in order},
            }
            if told not in (None, trace.sha256):
                found.append(
                    Problem(
                        marked.place((*at, "sha256")),
                        f"`{shown(file)}` is not the trace of this digest",
                        f"its own is {trace.sha256}",
                        "give that digest, or the file that was meant.",
                    )
                )
                continue
            files[trace.sha256] = file
            found += _contradictions(condition, way, trace, at, marked)
        for number, event in enumerate(rows_of(condition, "events")):
            if traces_of(event):
                place = marked.place(("conditions", index, "events", number, "link"))
                found.append(
                    Problem(
                        place,
                        "an event's `link` has a `trace`",
                        "a trace holds for a whole cell",
                        "put it under `link` of the condition.",
                    )
                )
    return files, found


def _read(block: Json, at: KeyPath, marked: MarkedYaml) -> tuple[Path, Trace] | Problem:
    place, name = marked.place((*at, "file")), str(block["file"])
    shipped = project_root() / "scenarios" / FOLDER
    file = next((f for f in (marked.file.parent / name, shipped / name, Path(name)) if f.is_file()), None)
    if file is None:
        have = ", ".join(sorted(f.name for f in shipped.glob("*.csv"))) or "none"
        return Problem(
            place,
            f"there is no trace `{name}`",
            f"looked beside the scenario and among the shipped: {have}",
            "give one of them, or the path of a trace; ./pqlab link makes one.",
        )
    try:
        return file, parse_trace(file.read_bytes())
    except OSError as error:
        return Problem(place, f"`{shown(file)}` cannot be read", str(error.strerror), "name another file.")
    except LinkError as error:
        return Problem(
            place, f"`{shown(file)}` is no trace: {error}", "the router would refuse it", f"{error.hint}."
        )


def _contradictions(
    condition: Json, way: str, trace: Trace, at: KeyPath, marked: MarkedYaml
) -> Iterator[Problem]:
    link = part_of(condition, "link")
    try:
        side = Side.parse(link[way])
    except LinkError as error:
        yield Problem(
            marked.place(at), f"`link.{way}`: {error}", "the router would refuse it", f"{error.hint}."
        )
        return
    for key in side.said_twice(trace.known):
        yield Problem(
            marked.place((*at[:-1], key)),
            f"`link.{way}` has both `{key}` and a trace that tells it",
            f"this trace tells {', '.join(trace.known)}",
            f"remove `{key}`.",
        )
    if side.trace is not None and side.trace.start_ms * 1_000_000 >= trace.end_ns:
        yield Problem(
            marked.place((*at, "start_ms")),
            f"`start_ms` {side.trace.start_ms} is behind the trace's end",
            f"it lasts {trace.end_ns / 1e6:g} ms",
            "begin within it.",
        )
    if link.get("probe") is not None:
        yield Problem(
            marked.place((*at[:2], "link", "probe")),
            f"`{condition['name']}` has a trace and `probe`",
            "a probe judges settings that stay; of a trace the router writes down every packet instead",
            "write `probe: null`.",
        )
    for number, event in enumerate(rows_of(condition, "events")):
        if event["kind"] in _CHANGING:
            yield Problem(
                marked.place((*at[:2], "events", number)),
                f"condition `{condition['name']}` has a trace and an event `{event['kind']}`",
                "the trace says what the link does and when",
                "put the change into the trace.",
            )
