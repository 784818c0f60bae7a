"""Campaigns of agents in memory that swear to what they hand out, and what `verify` says of forgeries."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fake_agent import FakeAgent, FakeLab, interrupt, once
from resume_kit import resume

from pqevidence.errors import LabError
from pqevidence.kernel.result import CheckResult
from pqevidence.kernel.view import BundleView
from pqevidence.verify import CHECKS
from pqevidence.verify.ed25519 import verified
from pqevidence.verify.run import run_checks
from pqlab.campaign.engine import Campaign
from pqtunnel.rpc import AgentUnreachableError

Json = dict[str, Any]
ATTEST = [check for check in CHECKS if check.name.startswith("attest_")]


def asked(root: Path) -> dict[str, CheckResult]:
    """What the checks of the chains say of a bundle."""
    return {result.name: result for result in run_checks(BundleView(root), ATTEST)}


def failed(root: Path) -> dict[str, str]:
    return {name: r.observed for name, r in asked(root).items() if r.status != "ok"}


def attesting(folder: Path, script: dict[int, list[str]] | None = None) -> FakeLab:
    lab = FakeLab(folder, script or {})
    lab.drone.attests()
    lab.gcs.attests()
    return lab


def carried_out(lab: FakeLab, cells: int = 3) -> Path:
    return Campaign.begin(lab.around(), lab.scenario(cells)).carry_out().bundle


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three cells, the second measured twice."""
    lab = attesting(tmp_path_factory.mktemp("honest"), {1: ["invalid", "pass"]})
    return carried_out(lab)


@pytest.fixture
def copy(honest: Path, tmp_path: Path) -> Path:
    root = tmp_path / honest.name
    shutil.copytree(honest, root)
    return root


def test_honest_run_is_sworn_to_by_both_ends(honest: Path) -> None:
    assert failed(honest) == {}
    told = asked(honest)["attest_signed"].observed
    assert "drone signed with key" in told and "gcs signed with key" in told
    assert asked(honest)["attest_attempts"].observed.startswith("6 ")


def test_agents_keep_no_key_after_the_run(tmp_path: Path) -> None:
    lab = attesting(tmp_path)
    carried_out(lab, 1)
    assert lab.drone.attestation._chain is None and lab.gcs.attestation._chain is None


def test_unsigned_bundle_says_what_it_lacks(tmp_path: Path) -> None:
    root = carried_out(FakeLab(tmp_path), 1)
    assert failed(root) == {}
    assert "unsigned" in asked(root)["attest_signed"].observed
    assert not (root / "data" / "attestation").exists()


def test_one_end_alone_does_not_attest(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path)
    lab.drone.attests()
    assert not (carried_out(lab, 1) / "data" / "attestation").exists()


# ------------------------------------------------------------------ runs that are cut off


def test_controller_that_dies_in_a_cell_and_goes_on(tmp_path: Path) -> None:
    lab = attesting(tmp_path)
    lab.drone.hooks.append(once("event", interrupt, kind="traffic_run", at=2))
    with pytest.raises(LabError):
        carried_out(lab)
    root = resume(lab).bundle
    assert failed(root) == {}
    assert "cut off" in asked(root)["attest_attempts"].observed
    assert not (root / "data" / "attestation" / "drone-2.ndjson").exists()


def test_agent_that_was_started_again_has_another_key(tmp_path: Path) -> None:
    lab = attesting(tmp_path)
    lab.drone.hooks.append(once("prepare", interrupt, at=2))
    with pytest.raises(LabError):
        carried_out(lab)
    lab.drone.restart()
    root = resume(lab).bundle
    assert failed(root) == {}
    chains = {path.name for path in (root / "data" / "attestation").glob("*.ndjson")}
    assert chains == {"drone-1.ndjson", "drone-2.ndjson", "gcs-1.ndjson"}
    told = asked(root)["attest_signed"].observed
    first, second = told.partition("drone signed with key ")[2].partition(";")[0].split(", ")[:2]
    assert first != second


def test_agent_that_is_lost_in_a_cell(tmp_path: Path) -> None:
    """Its part of that attempt is gone, the attempt says so, and the next segment swears to its files."""
    lab = attesting(tmp_path)

    def die(agent: FakeAgent) -> None:
        agent.restart()
        raise AgentUnreachableError("gone", hint="")

    lab.gcs.hooks.append(once("fetch", die, at=4))
    root = carried_out(lab)
    assert failed(root) == {}
    assert (root / "data" / "attestation" / "gcs-2.ndjson").is_file()


def test_answer_that_is_lost_is_asked_for_again(tmp_path: Path) -> None:
    """The agent has sworn, the controller does not know it yet."""
    lab = attesting(tmp_path)
    seen = 0

    def lose(agent: FakeAgent, method: str, params: Json) -> None:
        nonlocal seen
        if method == "attest" and params["op"] == "attempt":
            seen += 1
            if seen == 2:
                agent.attestation.handle(params)
                raise AgentUnreachableError("the answer is lost", hint="")

    lab.gcs.hooks.append(lose)
    assert failed(carried_out(lab)) == {}


def test_run_that_ended_and_was_not_sealed(tmp_path: Path) -> None:
    """Its agents have dropped their keys; they begin another segment for the rest."""
    lab = attesting(tmp_path)
    sealed, lab.outputs = lab.outputs, replace(lab.outputs, seal=_no_room)
    with pytest.raises(LabError, match="full"):
        carried_out(lab)
    lab.outputs = sealed
    root = resume(lab).bundle
    assert failed(root) == {}
    assert (root / "data" / "attestation" / "gcs-2.ndjson").is_file()


def _no_room(_work: Path, _results: Path, _secrets: list[Path]) -> Path:
    raise LabError("disk-full", "the disk is full", "no space", "free some")


def test_power_cut_between_lines_and_signature(tmp_path: Path) -> None:
    """Lines that no signature covers are fetched again from an agent that still has them."""
    lab = attesting(tmp_path)
    lab.drone.hooks.append(once("prepare", interrupt, at=3))
    with pytest.raises(LabError):
        carried_out(lab)
    (folder,) = (lab.results / ".work").glob("*/data/attestation")
    with (folder / "drone-1.ndjson").open("a") as file:
        file.write('{"n":99,"entry":"torn')
    assert failed(resume(lab).bundle) == {}


# ------------------------------------------------------------------ forgeries


def cells(root: Path) -> list[Path]:
    rows = json.loads((root / "data" / "plan.json").read_text())["cells"]
    return [root / "data" / "cells" / row["cell_id"] for row in sorted(rows, key=lambda r: r["position"])]


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("name", "old", "new", "why"),
    [
        ("ledger.drone.csv", "ledger 1", "ledger 7", "one is not as it was handed out"),
        ("ledger.gcs.csv", "ledger 2\n", "", "holds 2 records"),
        ("telemetry.gcs.lp", "system_pct=1", "system_pct=0", "one is not"),
        ("logs/drone.log", "log 0", "log 9", "one is not"),
        ("spans.ndjson", '"host": "gcs", "step": "step 1"', '"host": "gcs", "step": "step 8"', "of the gcs"),
        ("events.ndjson", '"event":"note"', '"event":"rest"', "events.ndjson: of records 1 to 3"),
        ("counters.json", '"tx_data": 1', '"tx_data": 2', "not what it counted"),
        ("traffic.json", '"source": "embedded"', '"source": "replay"', "not what the drone answered"),
    ],
)
def test_changed_record_is_found(copy: Path, name: str, old: str, new: str, why: str) -> None:
    replaced(cells(copy)[0] / name, old, new)
    told = failed(copy)
    assert set(told) == {"attest_attempts", "attest_raw"}
    assert why in told["attest_raw"]


def test_changed_file_of_the_controller_is_found(copy: Path) -> None:
    replaced(cells(copy)[0] / "logs" / "controller.log", "prepare", "prepared")
    told = failed(copy)
    assert set(told) == {"attest_attempts"}
    assert "files of attempt 1" in told["attest_attempts"]


def test_deleted_attempt_is_found(copy: Path) -> None:
    (earlier,) = cells(copy)[1].glob("attempt-*")
    shutil.rmtree(earlier)
    assert "swore to 2 attempts, 1 are here" in failed(copy)["attest_attempts"]


def test_attempt_that_nobody_swore_to_is_found(copy: Path) -> None:
    home = cells(copy)[0]
    shutil.copytree(home, home.parent / "more")
    shutil.move(home.parent / "more", home / "attempt-1")
    assert "2 attempts are here, the drone swore to 1" in failed(copy)["attest_attempts"]


def test_deleted_cell_is_found(copy: Path) -> None:
    last = cells(copy)[-1]
    shutil.rmtree(last)
    plan = json.loads((copy / "data" / "plan.json").read_text())
    plan["cells"] = [row for row in plan["cells"] if row["cell_id"] != last.name]
    (copy / "data" / "plan.json").write_text(json.dumps(plan))
    told = failed(copy)
    assert set(told) == {"attest_plan", "attest_attempts"}
    assert f"swore to cell {last.name}, which is not in the plan" in told["attest_attempts"]


def test_changed_host_is_found(copy: Path) -> None:
    replaced(copy / "data" / "hosts" / "drone.json", "x86_64", "armv7l")
    assert set(failed(copy)) == {"attest_plan"}


def test_chains_taken_away_are_missed(copy: Path) -> None:
    shutil.rmtree(copy / "data" / "attestation")
    assert "says plan.json" in failed(copy)["attest_signed"]


Rows = list[Json]


def rewritten(
    root: Path, role: str, change: Callable[[Rows], Rows], key: Ed25519PrivateKey | None = None
) -> None:
    """A chain made again over other rows, its envelope too; signed where the forger has a key."""
    folder = root / "data" / "attestation"
    path, signed = folder / f"{role}-1.ndjson", folder / f"{role}-1.dsse.json"
    rows = change([json.loads(line) for line in path.read_text().splitlines()])
    head, lines = rows[0]["plan_sha256"], []
    for number, row in enumerate(rows):
        row |= {"n": number, "prev": head}
        lines.append(json.dumps(row, separators=(",", ":")))
        head = hashlib.sha256(lines[-1].encode()).hexdigest()
    path.write_text("".join(f"{line}\n" for line in lines))
    envelope = json.loads(signed.read_text())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    statement["subject"][0]["digest"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    public = rows[0]["public_key"]
    statement["predicate"] |= {"entries": len(rows), "head": head, "public_key": public}
    payload = json.dumps(statement).encode()
    envelope["payload"] = base64.b64encode(payload).decode()
    if key is not None:
        kind = envelope["payloadType"]
        message = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
        name = hashlib.sha256(bytes.fromhex(public)).hexdigest()[:16]
        envelope["signatures"] = [{"keyid": name, "sig": base64.b64encode(key.sign(message)).decode()}]
    signed.write_text(json.dumps(envelope))


def without_the_last_cell(rows: Rows) -> Rows:
    last = [row["cell_id"] for row in rows if row["entry"] == "cell"][-1]
    return [row for row in rows if row.get("cell_id") != last]


def test_chain_made_again_has_no_signature(copy: Path) -> None:
    rewritten(copy, "drone", without_the_last_cell)
    assert "signature is not that of key" in failed(copy)["attest_signed"]


def test_chain_of_one_end_signed_by_a_forger_does_not_fit_the_other(copy: Path) -> None:
    key = Ed25519PrivateKey.generate()

    def mine(rows: Rows) -> Rows:
        rows[0]["public_key"] = key.public_key().public_bytes_raw().hex()
        return rows

    rewritten(copy, "drone", mine, key)
    told = failed(copy)
    assert set(told) == {"attest_crossed"}
    assert "is none of the drone's" in told["attest_crossed"]


def test_chain_cut_short_does_not_come_to_an_end(copy: Path) -> None:
    rewritten(copy, "gcs", lambda rows: rows[:-1])
    assert "signature" in failed(copy)["attest_signed"] or "end" in failed(copy)["attest_signed"]


def test_hidden_attempt_shows_by_its_preparation(copy: Path) -> None:
    """Both ends signed that the cell was prepared; its attempt was never told to them."""
    key = Ed25519PrivateKey.generate()

    def hidden(rows: Rows) -> Rows:
        rows[0]["public_key"] = key.public_key().public_bytes_raw().hex()
        at = next(n for n, row in enumerate(rows) if row["entry"] == "attempt")
        return rows[:at] + rows[at + 1 :]

    rewritten(copy, "drone", hidden, key)
    assert "no attempt of it follows" in failed(copy)["attest_attempts"]


# ------------------------------------------------------------------ signatures

#: RFC 8032, section 7.1, tests 1 to 3: public key, message, signature
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
        "387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
        "4a7c15e9716ed28dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("key", "message", "signature"), VECTORS)
def test_signatures_of_the_rfc(key: str, message: str, signature: str) -> None:
    public, text, signed = (bytes.fromhex(part) for part in (key, message, signature))
    assert verified(public, text, signed)
    assert not verified(public, text + b"x", signed)
    for place in (0, 31, 32, 63):
        other = bytearray(signed)
        other[place] ^= 1
        assert not verified(public, text, bytes(other))


def test_signatures_of_the_library() -> None:
    for length in (0, 1, 63, 64, 1000):
        key = Ed25519PrivateKey.generate()
        message = bytes(length)
        public, signature = key.public_key().public_bytes_raw(), key.sign(message)
        assert verified(public, message, signature)
        stranger = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
        assert not verified(stranger, message, signature)


def test_malleable_and_malformed_signatures_are_refused() -> None:
    public, text, signed = (bytes.fromhex(part) for part in VECTORS[1])
    order = 2**252 + 27742317777372353535851937790883648493
    scalar = int.from_bytes(signed[32:], "little") + order
    assert not verified(public, text, signed[:32] + scalar.to_bytes(32, "little"))
    assert not verified(public, text, signed[:-1])
    assert not verified(b"\xff" * 32, text, signed)
    assert not verified(public, text, b"\xff" * 32 + signed[32:])
