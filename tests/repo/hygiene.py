"""Find what must never be in this tree: keys, tokens, private addresses, machine paths, registry hosts.

Used by the pre-commit hook (`--staged`) and by test_hygiene.py (every tracked file). Lock files are read for
keys only: they are as their tools write them.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: name → pattern. Split literals keep this file from finding itself.
PATTERNS: dict[str, re.Pattern[str]] = {
    "private key block": re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE " + r"KEY-----"),
    "token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|xox[bap]-[A-Za-z0-9-]{20,}|AKIA[0-9A-Z]{16})\b"),
    "private address": re.compile(
        r"(?<![\d.])(?:10\.\d{1,3}\.\d{1,3}\.\d{1,3}|192\.168\.\d{1,3}\.\d{1,3}"
        r"|172\.(?:1[6-9]|2\d|3[01])\.\d{1,3}\.\d{1,3}|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.\d{1,3}\.\d{1,3})(?![\d.])"
    ),
    "machine path": re.compile(
        r"(?<![\w.])/(?:ho"
        + r"me/[a-z][\w-]*|ro"
        + r"ot/\.|wo"
        + r"rk/(?:main|shared)|Us"
        + r"ers/[A-Za-z]\w*)"
    ),
    "registry host": re.compile(
        r"pypi\.o"
        + r"rg|pythonho"
        + r"sted|deb\.debi"
        + r"an\.org|registry\.np"
        + r"mjs|proxy\.gol"
        + r"ang|static\.cra"
        + r"tes"
        r"|index\.cra" + r"tes|maven\.o" + r"rg"
    ),
}

#: Files whose content is their tool's: only key material and tokens are looked for.
TOOL_WRITTEN = re.compile(r"(?:^|/)(?:Cargo\.lock|go\.sum|go\.mod)$|^requirements/.*\.txt$")

#: Tests that must name a private address or a key header to prove that a checker finds it say so on the line.
ALLOWED_ON_LINE = "hygiene: example"


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}: {self.text.strip()[:100]}"


def scan_text(path: str, text: str) -> Iterator[Finding]:
    """Every forbidden thing in one file's text."""
    for number, line in enumerate(text.splitlines(), start=1):
        if ALLOWED_ON_LINE in line:
            continue
        for what, pattern in PATTERNS.items():
            if TOOL_WRITTEN.search(path) and what not in ("private key block", "token"):
                continue
            if pattern.search(line):
                yield Finding(path, number, what, line)


def _git(*argv: str) -> bytes:
    return subprocess.run(["git", *argv], cwd=ROOT, check=True, capture_output=True).stdout


def tracked_files(staged: bool) -> list[tuple[str, bytes]]:
    """(path, content) of every tracked file, or of what is staged, as git holds it."""
    if staged:
        names = _git("diff", "--cached", "--name-only", "--diff-filter=ACMR", "-z").decode().split("\0")
        return [(n, _git("show", f":{n}")) for n in names if n]
    names = _git("ls-files", "-z").decode().split("\0")
    return [(n, (ROOT / n).read_bytes()) for n in names if n and (ROOT / n).is_file()]


def scan(files: list[tuple[str, bytes]]) -> list[Finding]:
    findings: list[Finding] = []
    for path, content in files:
        if b"\0" in content[:8192]:
            continue
        findings.extend(scan_text(path, content.decode("utf-8", "replace")))
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--staged", action="store_true", help="look at what is about to be committed")
    findings = scan(tracked_files(parser.parse_args().staged))
    for finding in findings:
        print(finding, file=sys.stderr)
    if findings:
        print("Remove these lines, or mark a test's example with `hygiene: example`.", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
