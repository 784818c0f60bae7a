"""Attested bundles whose chains say something else than their files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from attested_kit import Handed, claim, swear

from bad_bundles.forge import Registry, edit, finish, registering

BAD: Registry = {}
FOLDER = Path("data/attestation")


def attested(
    root: Path, *, plan_sha256: str | None = None, handed: Handed | None = None, hidden: str | None = None
) -> None:
    """The bundle as two agents would have sworn to it, or nearly."""
    claim(root)
    finish(root)
    swear(root, plan_sha256=plan_sha256, handed=handed, hidden=hidden)
    finish(root, logs=False)


@registering(BAD, "attest_signed")
def signature_of_nothing(root: Path) -> None:
    """One bit of the drone's signature is another; all that it signed is as it was."""
    attested(root)

    def flip(envelope: dict[str, list[dict[str, str]]]) -> None:
        signature = envelope["signatures"][0]["sig"]
        envelope["signatures"][0]["sig"] = ("B" if signature[0] == "A" else "A") + signature[1:]

    edit(root / FOLDER / "drone-1.dsse.json", flip)
    finish(root, logs=False)


@registering(BAD, "attest_signed")
def chains_taken_away(root: Path) -> None:
    """The plan says that the run is attested, and there are no chains."""
    attested(root)
    shutil.rmtree(root / FOLDER)
    finish(root, logs=False)


@registering(BAD, "attest_signed")
def chain_of_one_end(root: Path) -> None:
    """The ground's chain is left out."""
    attested(root)
    for path in (root / FOLDER).glob("gcs-*"):
        path.unlink()
    finish(root, logs=False)


@registering(BAD, "attest_plan")
def plan_written_afterwards(root: Path) -> None:
    """Both ends began with another plan."""
    attested(root, plan_sha256="ab" * 32)


@registering(BAD, "attest_crossed")
def ends_of_two_runs(root: Path) -> None:
    """Both chains are whole and signed; they are of two runs of one plan."""
    attested(root)
    kept = {path: path.read_bytes() for path in (root / FOLDER).glob("drone-*")}
    swear(root)
    for path, content in kept.items():
        path.write_bytes(content)
    finish(root, logs=False)


@registering(BAD, "attest_attempts")
def worse_attempt_left_out(root: Path) -> None:
    """The first cell was measured twice, and one of its attempts is not here."""
    plan = json.loads((root / "data" / "plan.json").read_text(encoding="utf-8"))
    first = min(plan["cells"], key=lambda row: int(row["position"]))
    attested(root, hidden=str(first["cell_id"]))


@registering(BAD, "attest_raw")
def ledger_changed_on_the_way(root: Path) -> None:
    """The controller kept another row than the ground had handed out, and told the ends of its own."""

    def other(role: str, stream: str, lines: list[str]) -> list[str]:
        return [*lines[:-1], lines[-1] + "0"] if (role, stream) == ("gcs", "ledger") else lines

    attested(root, handed=other)


@registering(BAD, "attest_raw")
def log_nobody_handed_out(root: Path) -> None:
    """The log of the drone has a line more than the drone handed out."""

    def other(role: str, stream: str, lines: list[str]) -> list[str]:
        return lines[1:] if (role, stream) == ("drone", "log") else lines

    attested(root, handed=other)
