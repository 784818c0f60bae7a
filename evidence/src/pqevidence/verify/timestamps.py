"""Time stamps of an outside authority (RFC 3161), checked offline by OpenSSL.

A reply of an authority says that bytes of one digest existed at a time. It may be of a file of `--seal`, made
before the run, or of the bundle's `tagmanifest-sha512.txt`, made after it. `openssl ts` reads and checks it,
no cryptography of ours.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pqbase.documents import whole_of
from pqevidence.errors import LabError, UsageError
from pqevidence.kernel.result import CheckResult, Tally
from pqevidence.kernel.view import BundleView

NAME, EXPECTED = "time_stamped", "a time that an outside authority signed"
TAGS = "tagmanifest-sha512.txt"
_UTC = "%Y-%m-%dT%H:%M:%SZ"
_TIMEOUT_S = 20
_MOST_BYTES = 1 << 20
_GIVEN = re.compile(r"^Time stamp: (\w{3} +\d+ \d\d:\d\d:\d\d)(?:\.\d+)? (\d{4}) GMT$", re.MULTILINE)


@dataclass(frozen=True)
class Stamps:
    """What a user hands over: replies of authorities, and a file of the certificates that he trusts."""

    replies: Sequence[str]
    authorities: str

    @classmethod
    def of(cls, replies: Sequence[str] | None, authorities: str | None) -> Stamps | None:
        """None without replies. Raises UsageError where one is given without the other, or cannot be read;
        LabError where there is no OpenSSL."""
        if not replies and authorities is None:
            return None
        if not replies or authorities is None:
            raise UsageError(
                "usage",
                "--tsr and --tsa go together",
                "a time stamp is worth what its authority is",
                "verify BUNDLE --tsr FILE.tsr --tsa AUTHORITY.pem",
            )
        for name in (*replies, authorities):
            _require_file(name)
        if shutil.which("openssl") is None:
            raise LabError(
                "no-openssl",
                "time stamps cannot be checked",
                "the program openssl is not on this machine",
                "install openssl, or leave --tsr out",
            )
        return cls(tuple(replies), authorities)


def _require_file(name: str) -> None:
    path = Path(name)
    try:
        size = path.stat().st_size if path.is_file() else None
    except OSError:
        size = None
    if size is None or size > _MOST_BYTES:
        why = "no such file" if size is None else f"{size} bytes, a reply or a certificate has fewer"
        raise UsageError("bad-time-stamp", f"{name} cannot be read", why, "name a file that is there")


def stamped(path: Path, sealed: Sequence[str], stamps: Stamps) -> CheckResult:
    """Is each reply an authority's, over a file of `--seal` or over this bundle's tag manifest? What was to
    be fixed before the run was stamped before it began."""
    tally = Tally(unit="time stamps")
    told = []
    for reply in stamps.replies:
        given = _given(reply)
        name = Path(reply).name
        if given is None:
            tally.fail(f"{name}: no time stamp in it")
            continue
        candidates = [*(Path(one) for one in sealed), path.resolve() / TAGS]
        answers = [(data, _refused(reply, data, given, stamps.authorities)) for data in candidates]
        over = next((data for data, refused in answers if refused is None), None)
        if over is None:
            tally.fail(f"{name}: {answers[-1][1]}: neither of a file of --sealed nor of this bundle")
            continue
        tally.see()
        told.append(f"{over.name} existed at {given:{_UTC}}")
        if over.name != TAGS or over.parent != path.resolve():
            _require_before(path, over.name, given, tally)
    tally.note = "; ".join(told)
    return tally.result(NAME, EXPECTED)


def _require_before(path: Path, name: str, given: datetime, tally: Tally) -> None:
    try:
        began = datetime.fromtimestamp(whole_of(BundleView(path.resolve()).raw.run, "started_ns") / 1e9, UTC)
    except (LabError, OSError, ValueError, LookupError, TypeError, ArithmeticError) as error:
        tally.fail(f"when the run began cannot be read: {error}")
        return
    tally.require(
        given < began,
        f"{name} was stamped at {given:{_UTC}}, after the run began ({began:{_UTC}})",
    )


def _given(reply: str) -> datetime | None:
    """The time that a reply tells, unchecked."""
    done = _openssl("-reply", "-in", reply, "-text")
    found = _GIVEN.search(done.stdout)
    if done.returncode != 0 or found is None:
        return None
    return datetime.strptime(" ".join(found.groups()), "%b %d %H:%M:%S %Y").replace(tzinfo=UTC)


def _refused(reply: str, data: Path, given: datetime, authorities: str) -> str | None:
    """Why a reply is no stamp over that file, None where it is one. Certificates must hold at the time that
    was stamped: afterwards they expire, and the stamp stays what it was."""
    if not data.is_file():
        return f"no {data.name}"
    done = _openssl(
        "-verify",
        "-data",
        str(data),
        "-in",
        reply,
        "-CAfile",
        authorities,
        "-attime",
        str(int(given.timestamp())),
    )
    if done.returncode == 0 and "Verification: OK" in done.stdout + done.stderr:
        return None
    reasons = re.findall(r":([^:\n]+):[^:\n]*\.c:\d+:(?:Verify error:)?([^\n]*)", done.stderr)
    return f"{reasons[0][0]} {reasons[0][1]}".strip() if reasons else "openssl refuses it"


def _openssl(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["openssl", "ts", *words],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
