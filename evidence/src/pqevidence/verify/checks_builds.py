"""Libraries by their digests: a known one is what it is called; of any other, that nobody here knows it.

`known_builds.json` lists what the images of this tree give: library, version, system, machine, SHA-256. It
says which version of pqlab they came with. Whoever builds with another compiler gets other bytes, honestly:
no fault, and told. A page depends on nothing but its bundle, so that this is said here and not there.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

from pqbase.documents import part_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView
from pqevidence.record.raw import ROLES, Json, RawRun
from pqevidence.verify.older import version_of
from pqevidence.versions import KNOWN

TABLE = "known_builds.json"
LIBRARIES = ("liboqs", "ascon_native", "core")
#: what a table's row and a host's facts both say
_PLACE = ("os", "machine")


@cache
def builds() -> dict[str, Json]:
    """Rows of the table by digest."""
    text = (resources.files("pqevidence.verify") / TABLE).read_text(encoding="utf-8")
    return {row["sha256"]: row for row in json.loads(text)}


def _named_earlier(run: RawRun, role: str, row: Json, tally: Tally) -> None:
    """A core is built anew for each version: one that came with a later one measured nothing before."""
    made_by = version_of(run)
    if row["library"] == "core" and made_by in KNOWN and made_by != row["pqlab"]:
        tally.require(
            KNOWN.index(row["pqlab"]) <= KNOWN.index(made_by),
            f"{role}: core ({row['sha256'][:12]}, providers.json) came with pqlab {row['pqlab']}, run.json "
            f"says {made_by}",
        )


def known(bundle: BundleView, tally: Tally) -> None:
    """No digest of one build under the name of another; unknown ones are named."""
    unknown: dict[str, None] = {}
    stand_ins = False
    for run in bundle.runs:
        if run.scenario.get("ring") == "sim":
            stand_ins = True
            continue
        for role in ROLES:
            for library in LIBRARIES:
                if (text := _look(run, role, library, tally)) is not None:
                    unknown[text] = None
    told = [f"unknown, built here: {', '.join(unknown)}"] if unknown else []
    tally.note = "; ".join([*(["stand-ins of the simulator"] if stand_ins else []), *told])


def _look(run: RawRun, role: str, library: str, tally: Tally) -> str | None:
    """What to say of a build that the table does not have."""
    told = part_of(part_of(run.providers, role, {}), library, {})
    digest, version = told.get("sha256"), told.get("version")
    if digest is None:
        return None
    tally.see()
    row = builds().get(str(digest))
    if row is None:
        return f"{library} {version} ({str(digest)[:12]})"
    _named_earlier(run, role, row, tally)
    host = run.host(role)
    claimed = {"library": library, "version": version, **{name: host.get(name) for name in _PLACE}}
    wrong = [name for name, value in claimed.items() if value is not None and value != row[name]]
    tally.require(
        not wrong,
        f"{role}: {library} {version} of providers.json has the digest of {row['library']} {row['version']} "
        f"for {row['os']} on {row['machine']} ({str(digest)[:12]}), hosts/{role}.json: "
        f"{host.get('os')} on {host.get('machine')}",
    )
    return None
