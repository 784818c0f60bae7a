"""Test results in the XML that build servers read (JUnit's, as Jenkins and GitLab have its schema).

One suite, one case a cell, check or claim. No clock and no host name: equal cases give equal bytes. A case
without a time has no `time`, since 0 would be one.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pqevidence.errors import UsageError
from pqevidence.paths import shown

#: failure: what was looked at is not as it must be; error: it could not be looked at; skipped: it was not
Outcome = Literal["passed", "failure", "error", "skipped"]
#: what XML 1.0 (section 2.2) has no character for
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REPLACEMENT = "\ufffd"


@dataclass(frozen=True)
class Case:
    """One test case. kind: a short word of what went wrong; message: one line; detail: all there is to say;
    output: what to say of a case that passed, such as a warning; time_s: how long it took, None where nothing
    says so."""

    group: str
    name: str
    outcome: Outcome = "passed"
    kind: str = ""
    message: str = ""
    detail: str = ""
    output: str = ""
    time_s: float | None = None


def junit_xml(name: str, cases: Sequence[Case], facts: Mapping[str, str]) -> bytes:
    """The document. name: of the suite; facts: become its properties, in the order given."""
    counts = {
        "tests": len(cases),
        "failures": sum(case.outcome == "failure" for case in cases),
        "errors": sum(case.outcome == "error" for case in cases),
    }
    totals = {key: str(value) for key, value in counts.items()}
    top = ET.Element("testsuites", {"name": "pqlab", **totals})
    skipped = str(sum(case.outcome == "skipped" for case in cases))
    suite = ET.SubElement(top, "testsuite", {"name": _plain(name), **totals, "skipped": skipped})
    properties = ET.SubElement(suite, "properties") if facts else None
    for key, value in facts.items():
        assert properties is not None
        ET.SubElement(properties, "property", {"name": _plain(key), "value": _plain(value)})
    for case in cases:
        _add(suite, case)
    ET.indent(top)
    text: bytes = ET.tostring(top, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def write_junit(file: str, name: str, cases: Sequence[Case], facts: Mapping[str, str]) -> None:
    """Write the document to `file`, whole or not at all. Raises OSError."""
    target = Path(file)
    half = target.with_name(f".{target.name}.half")
    half.write_bytes(junit_xml(name, cases, facts))
    half.replace(target)


def require_place(file: str | None) -> None:
    """Raises UsageError where `--junit` names a place that cannot be written to, before hours of work."""
    if file is None:
        return
    target = Path(file).absolute()
    if target.parent.is_dir() and not target.is_dir():
        return
    raise UsageError(
        "no-folder",
        f"--junit {file} cannot be written",
        f"{shown(target.parent)} is no folder" if not target.is_dir() else "it is a folder",
        "make the folder, or name another file",
    )


def _add(suite: ET.Element, case: Case) -> None:
    time = {} if case.time_s is None else {"time": f"{case.time_s:.3f}"}
    named = {"classname": _plain(case.group), "name": _plain(case.name)}
    element = ET.SubElement(suite, "testcase", {**named, **time})
    if case.outcome == "skipped":
        ET.SubElement(element, "skipped", {"message": _plain(case.message)})
    elif case.outcome != "passed":
        told = {"message": _plain(case.message), "type": _plain(case.kind or case.outcome)}
        ET.SubElement(element, case.outcome, told).text = _plain(case.detail or case.message)
    if case.output:
        ET.SubElement(element, "system-out").text = _plain(case.output)


def _plain(text: str) -> str:
    return _NO_XML.sub(_REPLACEMENT, text)
