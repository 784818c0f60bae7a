"""What the files say in words: nothing private in any of them, and a report that is of these numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pqevidence.bundle.digest import read_whole
from pqevidence.bundle.numbers import numbers_sha256
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView


class Sign:
    """Stands wherever a pattern does, and almost nowhere else; it begins with a letter that is written out,
    so that it is found at memory speed. needs: bytes of which each stands in it."""

    def __init__(self, pattern: bytes, needs: bytes = b"") -> None:
        self.search = re.compile(pattern).search
        self.needs = needs


@dataclass(frozen=True)
class Forbidden:
    """What must not stand in any file: where one of the literals is, the pattern is tried.

    `begins_word`: a letter, digit or dot before the literal makes it part of something else. `signs`: content
    with none of them has the pattern nowhere.
    """

    what: str
    literals: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    signs: tuple[Sign, ...]
    begins_word: bool = True


FORBIDDEN = (
    Forbidden(
        "a private key block",
        (b"-----BEGIN ",),
        re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY"),
        (Sign(rb"BEGIN ", b"BGPKY"),),
        begins_word=False,
    ),
    Forbidden(
        "an access token",
        (b"ghp_", b"gho_", b"ghs_", b"ghu_", b"github_pat_", b"glpat-", b"AKIA", b"xox", b"eyJ"),
        re.compile(
            rb"(?:gh[opsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
            rb"|AKIA[0-9A-Z]{16}|xox[abprs]-[A-Za-z0-9-]{10,}|eyJ[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{8,})"
        ),
        (
            Sign(rb"g(?:h[opsu]_|ithub_pat_|lpat-)", b"g"),
            Sign(rb"AKIA", b"AKI"),
            Sign(rb"xox[abprs]-", b"xo-"),
            Sign(rb"J[A-Za-z0-9_-]{16}", b"eyJ."),
        ),
    ),
    Forbidden(
        "a named secret",
        tuple(
            b'"%s"' % n for n in (b"password", b"token", b"api_key", b"psk", b"secret_key", b"private_key")
        ),
        re.compile(rb'"[a-z_]+"\s*:\s*"[^"]{8,}"'),
        tuple(Sign(b'%s"\\s*:' % end, b'%s":' % end) for end in (b"word", b"ken", b"key", b"psk")),
        begins_word=False,
    ),
    Forbidden(
        "a private address",
        (b"10.", b"172.", b"192.168.", b"100."),
        re.compile(
            rb"(?:10\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01])|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))"
            rb"\.\d{1,3}\.\d{1,3}(?![\w.])"
        ),
        (Sign(rb"\.\d{1,3}\.\d{1,3}\.\d{1,3}(?![\w.])", b"1."),),
    ),
    Forbidden(
        "a machine path",
        (b"/home/", b"/root/", b"/Users/", b"/work/", b"/mnt/", b"/media/", b":\\Users\\", b":\\\\Users\\\\"),
        re.compile(rb"(?:/[A-Za-z]+/[\w.-]+|:\\+Users)"),
        (
            Sign(rb"/(?:home|root|Users|work|mnt|media)/[\w.-]", b"/"),
            Sign(rb"\\Users\\", b"\\:U"),
        ),
    ),
)
_BYTES = bytes(range(256))
_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")
#: a file of nothing but these cannot hold any of the patterns (ledgers: most of a bundle's bytes)
_PLAIN_TABLE = bytes(range(0x30, 0x3A)) + b"abcdefghijklmnopqrstuvwxyz_,\n-"
#: in a page whose capitals were made small: that is found three times as fast as either case of each letter
_OUTSIDE = re.compile(rb"""(?:src|href)\s*=\s*["'](?:https?:)?//[^"']+\.(?:js|css|png|svg|woff2?)""")
#: what is in each of these, at memory speed: two slashes right after a quote, or after its http: or https:
_QUOTED_HOST = re.compile(
    rb"""//(?:(?<=["']//)|(?<=["'][hH][tT][tT][pP]://)|(?<=["'][hH][tT][tT][pP][sS]://))"""
)
_NUMBERS = re.compile(r'<meta name="pqlab-numbers-sha256" content="([0-9a-f]{64})">')
_NUMBERS_MD = re.compile(r"numbers sha256: `?([0-9a-f]{64})")


def no_secrets(bundle: BundleView, tally: Tally) -> None:
    """No file holds a private key block, a token, an address of somebody's network or a path of somebody's
    machine. The lab's own addresses (198.18.0.0/15, RFC 2544) are of no machine. Sealing has searched for the
    keys themselves, byte by byte, while they were at hand."""
    above = f"{bundle.data}/"
    for name in sorted((name.removeprefix("data/") for name in bundle.payload), key=lambda n: n.split("/")):
        tally.see()
        content = bundle.contents.get(f"data/{name}")
        if content is None:
            content = read_whole(above + name)
        if name.endswith(".csv") and not content.translate(None, _PLAIN_TABLE):
            continue
        for forbidden in possible(content):
            at = find_forbidden(content, forbidden)
            if at is not None:
                line = content.count(b"\n", 0, at) + 1
                tally.fail(f"{name} line {line} holds {forbidden.what}")


def possible(content: bytes) -> list[Forbidden]:
    """What the content may hold: all that it does, and little else."""
    absent = frozenset(_BYTES.translate(None, content))
    return [
        forbidden
        for forbidden in FORBIDDEN
        if any(absent.isdisjoint(sign.needs) and sign.search(content) for sign in forbidden.signs)
    ]


def find_forbidden(content: bytes, forbidden: Forbidden) -> int | None:
    """Where it first stands, or None. Literals are found at memory speed; a pattern walks every digit."""
    for literal in forbidden.literals:
        at = content.find(literal)
        while at >= 0:
            drive = literal.startswith(b":")  # the letter before it is the drive's
            inside = forbidden.begins_word and not drive and at > 0 and content[at - 1] in _WORD
            if not inside and forbidden.pattern.match(content, at):
                return at
            at = content.find(literal, at + 1)
    return None


def report_present(bundle: BundleView, tally: Tally) -> None:
    """Both reports are there, and the page needs nothing from elsewhere."""
    for name in ("report.html", "report.md"):
        path = bundle.data / name
        tally.see()
        if not path.is_file():
            tally.fail(f"{name} is missing")
            continue
        tally.require(path.stat().st_size > 1000, f"{name} has {path.stat().st_size} bytes")
    page = bundle.data / "report.html"
    if page.is_file():
        content = page.read_bytes()
        tally.require(content[:15].lower() == b"<!doctype html>", "report.html is no HTML page")
        if _QUOTED_HOST.search(content) is not None:
            tally.require(_OUTSIDE.search(content.lower()) is None, "report.html loads from elsewhere")


def report_numbers(bundle: BundleView, tally: Tally) -> None:
    """The hash in each report is that of this bundle's plan, records and analysis tables."""
    due = numbers_sha256(bundle.data)
    for name, pattern in (("report.html", _NUMBERS), ("report.md", _NUMBERS_MD)):
        tally.see()
        text = (bundle.data / name).read_text(encoding="utf-8")
        found = pattern.search(text)
        told = found.group(1) if found else None
        tally.require(told == due, f"{name} is of numbers {str(told)[:12]}…, these are {due[:12]}…")
