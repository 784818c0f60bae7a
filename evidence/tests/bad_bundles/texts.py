"""Words that have no place in a bundle, and reports of other numbers."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from bad_bundles.forge import Registry, cells, finish, registering

BAD: Registry = {}


def log(root: Path, text: str) -> None:
    path = cells(root)[0] / "logs" / "drone.log"
    path.write_text(path.read_text(encoding="utf-8") + text + "\n", encoding="utf-8")
    finish(root)


@registering(BAD, "attributed")
def cited_by_another_name(root: Path) -> None:
    """A CITATION.cff names an author whom nothing else in the bundle knows."""
    text = 'cff-version: 1.2.0\nmessage: "cite it"\ntitle: "T"\nauthors:\n  - family-names: "Other"\n'
    (root / "data" / "CITATION.cff").write_text(text, encoding="utf-8")
    finish(root)


@registering(BAD, "no_secrets")
def key_in_a_log(root: Path) -> None:
    """A log holds the head of a private key."""
    log(root, "-----BEGIN " + "PRIVATE KEY-----")


@registering(BAD, "no_secrets")
def address_in_a_log(root: Path) -> None:
    """A log holds an address of somebody's own network."""
    log(root, "connected to 192.168" + ".7.31:46000")


@registering(BAD, "no_secrets")
def path_in_a_log(root: Path) -> None:
    """A log holds a path of somebody's machine."""
    log(root, "keys read from /home" + "/alice/lab/keys")


@registering(BAD, "report_present")
def no_real_report(root: Path) -> None:
    """The page holds nothing but the hash."""
    path = root / "data" / "report.html"
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.index("<title>")] + "</head></html>\n", encoding="utf-8")
    finish(root)


@registering(BAD, "report_numbers")
def report_of_other_numbers(root: Path) -> None:
    """The page was made from other numbers than those beside it."""
    path = root / "data" / "report.html"
    head, mark, tail = path.read_text(encoding="utf-8").partition('numbers-sha256" content="')
    path.write_text(head + mark + "0" * 64 + tail[64:], encoding="utf-8")
    finish(root, report=False)


@registering(BAD, "raw_fingerprints")
def log_rewritten(root: Path) -> None:
    """A line of a log says something else; metadata and all manifests were written again."""
    path = cells(root)[0] / "logs" / "gcs.log"
    path.write_text(path.read_text(encoding="utf-8").replace("synthetic", "different"), encoding="utf-8")
    finish(root, prints=False)


@registering(BAD, "raw_fingerprints")
def log_left_out(root: Path) -> None:
    """A log is gone from payload, metadata and manifests."""
    (cells(root)[0] / "logs" / "controller.log").unlink()
    finish(root, prints=False)


@registering(BAD, "report_rebuild")
def halved_in_the_page(root: Path) -> None:
    """Every decimal in the page is half of what it was; the hash of the numbers beneath is right."""
    path = root / "data" / "report.html"
    text = path.read_text(encoding="utf-8")
    halved = re.sub(r">(\d+\.\d+)<", lambda found: f">{float(found[1]) / 2:.3f}<", text)
    assert halved != text
    path.write_text(halved, encoding="utf-8")
    finish(root)


@registering(BAD, "report_rebuild")
def halved_in_a_table(root: Path) -> None:
    """Every decimal of one analysis table is half of what the raw files give; the reports carry its hash."""
    path = root / "data" / "analysis" / "handshakes.csv"
    text = path.read_text(encoding="utf-8")
    halved = re.sub(r"(\d+\.\d+)", lambda found: f"{float(found[1]) / 2:.6g}", text)
    assert halved != text
    path.write_text(halved, encoding="utf-8")
    finish(root)


@registering(BAD, "report_rebuild")
def no_tables(root: Path) -> None:
    """The analysis tables are gone from payload, metadata and manifest."""
    shutil.rmtree(root / "data" / "analysis")
    finish(root)
