"""Submissions that an index must refuse, each made of a good bundle's copy by a few lines of its own: no code
under test makes them.

`FOLDERS` maps a name to the check that must refuse it and to what spoils the copy; `ENTRIES` the same for
what lies in the folder of submissions itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

Spoil = Callable[[Path], object]
#: Cyrillic, as the eye reads it
LOOKALIKE = "\u0441\u043c\u043e\u043a\u0435"
RIGHT_TO_LEFT, ZERO_WIDTH = "\u202e", "\u200b"
#: put together here, so that this file holds none
PRIVATE, OWN_PATH = "192" + ".168.7.9", "/ho" + "me/somebody/board.txt"
SCRIPT = "<script>alert(1)</script>"


def document(name: str, change: Callable[[dict[str, Any]], object]) -> Spoil:
    """One document with its content changed."""

    def spoil(root: Path) -> None:
        path = root / "data" / name
        told = json.loads(path.read_text(encoding="utf-8"))
        change(told)
        path.write_text(json.dumps(told), encoding="utf-8")

    return spoil


def put(name: str, **values: Any) -> Spoil:
    return document(name, lambda told: told.update(values))


def host(**values: Any) -> Spoil:
    return document("hosts/drone.json", lambda told: told["host"].update(values))


def scenario(line: str, by: str) -> Spoil:
    """The scenario's line that begins so, with other text behind the colon."""

    def spoil(root: Path) -> None:
        path = root / "data" / "scenario.effective.yml"
        text = path.read_text(encoding="utf-8")
        changed = re.sub(rf"(?m)^{line}:.*$", lambda _: f"{line}: {by}", text)
        assert changed != text
        path.write_text(changed, encoding="utf-8")

    return spoil


def content(name: str, value: bytes) -> Spoil:
    return lambda root: (root / "data" / name).write_bytes(value)


def sparse(size: int, *names: str) -> Spoil:
    """Files that are long and take no room."""

    def spoil(root: Path) -> None:
        for name in names:
            with (root / "data" / name).open("wb") as handle:
                handle.truncate(size)

    return spoil


def gone(*names: str) -> Spoil:
    def spoil(root: Path) -> None:
        for name in names:
            (root / name).unlink()

    return spoil


def resealed(root: Path) -> None:
    """The crate's sizes and both manifests made to fit what lies there now."""
    crate = root / "data" / "ro-crate-metadata.json"
    described = json.loads(crate.read_text(encoding="utf-8"))
    for entity in described["@graph"]:
        if "contentSize" in entity:
            size = (root / "data" / entity["@id"]).stat().st_size
            entity["contentSize"] = type(entity["contentSize"])(size)
    crate.write_text(json.dumps(described), encoding="utf-8")

    def lines(paths: list[Path]) -> str:
        told = [(p.relative_to(root).as_posix(), hashlib.sha512(p.read_bytes()).hexdigest()) for p in paths]
        return "".join(f"{digest}  {name}\n" for name, digest in sorted(told))

    payload = [path for path in (root / "data").rglob("*") if path.is_file()]
    (root / "manifest-sha512.txt").write_text(lines(payload), encoding="utf-8")
    tags = [path for path in root.iterdir() if path.is_file() and not path.name.startswith("tagmanifest")]
    (root / "tagmanifest-sha512.txt").write_text(lines(tags), encoding="utf-8")


def forged(spoil: Spoil) -> Spoil:
    """Spoiled, and sealed again."""

    def both(root: Path) -> None:
        spoil(root)
        resealed(root)

    return both


def _many(root: Path) -> None:
    folder = root / "data" / "many"
    folder.mkdir()
    for number in range(10_001):
        (folder / str(number)).touch()


def _twice(root: Path) -> None:
    path = root / "data" / "run.json"
    path.write_text('{"run_id": "x", ' + path.read_text(encoding="utf-8").lstrip()[1:], encoding="utf-8")


def _bench(root: Path) -> None:
    (root / "data" / "plan.json").unlink()
    (root / "data" / "performance").mkdir()


def _secret(root: Path) -> None:
    log = next((root / "data" / "cells").glob("*/logs/drone.log"))
    with log.open("a", encoding="utf-8") as handle:
        handle.write("-----BEGIN " + "PRIVATE KEY-----\n")


def _better(root: Path) -> None:
    """Another median in the table that the index reads."""
    path = root / "data" / "analysis" / "by_suite.csv"
    text = path.read_text(encoding="utf-8")
    changed = re.sub(r"(?m)^(cs-(?:[^,]*,){6})[\d.]+", r"\g<1>0.5", text)
    assert changed != text
    path.write_text(changed, encoding="utf-8")


FOLDERS: dict[str, tuple[str, Spoil]] = {
    # the folder, before anything is opened
    "member-link": ("member_kind", lambda root: (root / "data" / "more.csv").symlink_to("/etc/hostname")),
    "member-link-above": ("member_kind", lambda root: (root / "data" / "up").symlink_to("../..")),
    "member-pipe": ("member_kind", lambda root: os.mkfifo(root / "data" / "wait.csv")),
    "member-markup": ("member_name", content("<img src=x onerror=alert(1)>.csv", b"x")),
    "member-lookalike": ("member_name", content("r\u0435port.html", b"x")),
    "member-line-break": ("member_name", content("a\nb", b"x")),
    "member-backslash": ("member_name", content("..\\outside.txt", b"x")),
    "member-right-to-left": ("member_name", content(f"{RIGHT_TO_LEFT}vsc.exe", b"x")),
    "member-too-large": ("member_bounds", sparse((1 << 30) + 1, "large.bin")),
    "members-too-large": ("member_bounds", sparse(900 << 20, "a.bin", "b.bin", "c.bin")),
    "members-too-many": ("member_bounds", _many),
    # documents, before any is believed
    "flown": ("not_flown", lambda root: (root / "flown.json").write_text("{}", encoding="utf-8")),
    "bench": ("kind_known", _bench),
    "merged": ("one_run", content("merge.json", b"{}")),
    "unsealed": ("sealed", gone("tagmanifest-sha512.txt")),
    "no-bag": ("sealed", gone("bagit.txt")),
    "plan-missing": ("documents_read", gone("data/plan.json")),
    "plan-cut": ("documents_read", content("plan.json", b"{")),
    "plan-list": ("documents_read", content("plan.json", b"[]")),
    "plan-nested": ("documents_read", content("plan.json", b"[" * 200_000)),
    "plan-huge": ("documents_read", sparse(33 << 20, "plan.json")),
    "host-not-utf8": ("documents_read", content("hosts/gcs.json", b"\xff\xfe{}")),
    "scenario-no-yaml": ("documents_read", content("scenario.effective.yml", b"a: [")),
    "key-twice": ("documents_plain", _twice),
    "providers-nested": (
        "documents_read", content("providers.json", b'{"a":' + b"[" * 99 + b"]" * 99 + b"}"),
    ),
    "not-a-number": ("documents_plain", content("providers.json", b'{"a": NaN}')),
    "infinite": ("documents_plain", content("providers.json", b'{"a": 1e999}')),
    "yaml-aliases": ("documents_plain", content("scenario.effective.yml", b"a: &a [x]\nb: [*a, *a]\n")),
    "version-later": ("version_known", put("run.json", pqlab_version="99.0.0")),
    "version-missing": ("version_known", document("run.json", lambda told: told.pop("pqlab_version"))),
    "run-id-path": ("run_id_form", put("plan.json", run_id="../../etc/passwd")),
    "run-id-two": ("run_id_form", put("run.json", run_id="20000101T000000Z-ffffff")),
    "run-id-list": ("run_id_form", put("plan.json", run_id=["20000101T000000Z-ffffff"])),
    "date-before-all": ("dates_sane", put("run.json", started_ns=-1)),
    "date-far": ("dates_sane", put("run.json", started_ns=10**30, ended_ns=10**30)),
    "date-text": ("dates_sane", put("run.json", started_ns="yesterday")),
    "date-backwards": ("dates_sane", put("run.json", ended_ns=946_684_800 * 10**9 - 1)),
    "date-never": ("dates_sane", put("plan.json", created_utc="2000-02-31T00:00:00Z")),
    "date-other-day": ("dates_sane", put("plan.json", created_utc="2000-06-01T00:00:00Z")),
    "ring-gold": ("ring_known", scenario("ring", "gold")),
    "ring-lab-in-2000": ("dates_sane", scenario("ring", "lab")),
    "title-script": ("text_plain", scenario("title", json.dumps(SCRIPT))),
    "name-lookalike": ("text_plain", put("plan.json", scenario=LOOKALIKE)),
    "processor-right-to-left": ("text_plain", host(cpu_model=f"{RIGHT_TO_LEFT}6 ippi")),
    "processor-zero-width": ("text_plain", host(cpu_model=f"Cor{ZERO_WIDTH}tex")),
    "processor-long": ("text_plain", host(cpu_model="x" * 5000)),
    "board-script": ("text_plain", host(board_model='"><svg onload=alert(1)>')),
    "suite-script": (
        "text_plain", document("plan.json", lambda told: told["cells"][0].update(suite_id=SCRIPT)),
    ),
    "board-address": ("text_private", host(board_model=f"board at {PRIVATE}")),
    "board-path": ("text_private", host(cpu_model=f"see {OWN_PATH}")),
    "machine-missing": ("machine_told", host(cpu_model=None)),
    "host-list": ("machine_told", put("hosts/drone.json", host=[])),
    "licence-prose": ("licence_form", content("attribution.json", b'{"license": "ask me first"}')),
    # what verify finds, also where the manifests were made again
    "flipped": ("verify.manifest_fixity", content("report.md", b"# something else\n" * 99)),
    "file-added": ("verify.ro_crate", forged(content("more.csv", b"a\n1\n"))),
    "table-better": ("verify.report_numbers", forged(_better)),
    "private-key": ("verify.no_secrets", forged(_secret)),
}  # fmt: skip


def _named(name: str) -> Callable[[Path, Path], object]:
    return lambda folder, good: shutil.copytree(good, folder / name)


def _linked(name: str, target: str) -> Callable[[Path, Path], object]:
    return lambda folder, good: (folder / name).symlink_to(target)


#: name in the folder → check, and what puts it there: (folder, good bundle)
ENTRIES: dict[str, tuple[str, Callable[[Path, Path], object]]] = {
    "link-outside": ("entry_link", _linked("link-outside", "/etc")),
    "link-above": ("entry_link", _linked("link-above", "../outside")),
    "link-nowhere": ("entry_link", _linked("link-nowhere", "nothing-here")),
    "wait.tar.zst": ("entry_kind", lambda folder, good: os.mkfifo(folder / "wait.tar.zst")),
    SCRIPT.replace("/", ""): ("entry_name", _named(SCRIPT.replace("/", ""))),
    f"20000101T000000Z-{LOOKALIKE}": ("entry_name", _named(f"20000101T000000Z-{LOOKALIKE}")),
    f"{RIGHT_TO_LEFT}abc": ("entry_name", _named(f"{RIGHT_TO_LEFT}abc")),
    "line\nbreak": ("entry_name", _named("line\nbreak")),
    "-rf": ("entry_name", _named("-rf")),
    "n" * 120: ("entry_name", _named("n" * 120)),
    "Twin": ("bundle_once", _named("Twin")),
    "twin": ("entry_apart", _named("twin")),
}
