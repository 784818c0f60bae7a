"""`pqtunnel keys`: what it makes fits together, what is valid is kept, what is damaged is replaced."""

from __future__ import annotations

import functools
import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from pqspec.handshake.secrets import clear
from pqtunnel import signing_pairs
from pqtunnel.cli import main
from pqtunnel.endpoint.identity_files import load_drone, load_gcs
from pqtunnel.errors import KeyMaterialError
from pqtunnel.keys import COMPLETE_FILE, provision
from pqtunnel.pki import Authority, certificate_is_good
from pqtunnel.primitives import load
from pqtunnel.suites import EXTRA_SIGS, SIGS

proved_once = functools.cache(signing_pairs._proves)
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture(autouse=True)
def no_pair_is_proved_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most runs here meet the same pairs again, and a SPHINCS+ signature is seconds of CPU on some hosts."""
    monkeypatch.setattr(signing_pairs, "_proves", proved_once)


@pytest.fixture
def folder(key_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(key_folder, tmp_path / "keys"))


def _state(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.native
def test_both_ends_fit_together(key_folder: Path) -> None:
    drone, gcs = load_drone(key_folder / "drone"), load_gcs(key_folder / "gcs")
    assert [identity.key_id for identity in drone.trusted] == [gcs.identity.public.key_id]
    assert set(SIGS) | {"ed25519"} <= set(gcs.identity.secrets) <= {*SIGS, *EXTRA_SIGS}
    assert len(gcs.psks) == 1
    for token in gcs.identity.secrets:
        signer = load().sig(token)
        signature = signer.sign(clear(gcs.identity.secrets[token]), b"m")
        assert signer.verify(drone.trusted[0].keys[token], b"m", signature)


@pytest.mark.linux("asks for the mode of files")
@pytest.mark.native
def test_modes_are_private(key_folder: Path) -> None:
    for path in (key_folder, *key_folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.native
def test_again_changes_nothing_and_force_changes_every_secret(folder: Path) -> None:
    before = _state(folder)
    report = provision(folder, load())
    assert report.made == []
    assert _state(folder) == before
    report = provision(folder, load(), force=True)
    assert report.kept == []
    after = _state(folder)
    for name, content in before.items():
        if name.endswith((".secret", ".key.pem")):
            assert after.get(name) != content, name
    load_drone(folder / "drone")


@pytest.mark.native
@pytest.mark.parametrize(
    ("damaged", "remade"),
    [
        ("gcs/sig/mldsa65.secret", "gcs/sig/mldsa65"),
        ("gcs/sig/falcon512.secret", "gcs/sig/falcon512"),
        ("drone/psk.secret", "drone/psk"),
        ("drone/tls.cert.pem", "drone/tls"),
        ("ca/ca.key.pem", "ca"),
    ],
)
def test_what_is_damaged_is_replaced(folder: Path, damaged: str, remade: str) -> None:
    file = folder / damaged
    content = bytearray(file.read_bytes())
    file.write_bytes(content[:-10])
    report = provision(folder, load())
    assert remade in report.made
    assert load_drone(folder / "drone").trusted[0].key_id == load_gcs(folder / "gcs").identity.public.key_id
    assert provision(folder, load()).made == []


@pytest.mark.native
def test_a_swapped_signing_key_of_the_right_length_is_noticed(folder: Path) -> None:
    secret = folder / "gcs" / "sig" / "mldsa44.secret"
    _, stranger = load().sig("mldsa44").generate()
    secret.write_bytes(stranger)
    report = provision(folder, load())
    assert "gcs/sig/mldsa44" in report.made
    assert "drone/pins" in report.made  # the identity changed, so its pin did


@pytest.mark.linux("gives a file a mode")
@pytest.mark.native
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
@pytest.mark.parametrize("role", ["drone", "gcs"])
def test_a_secret_that_others_may_read_is_refused(folder: Path, role: str, mode: int) -> None:
    """Each kind of it; `make keys` puts the mode right."""
    for secret in sorted((folder / role).rglob("*.secret"))[::4]:
        secret.chmod(mode)
        with pytest.raises(KeyMaterialError, match=f"mode {mode:04o} lets others read a secret") as caught:
            (load_drone if role == "drone" else load_gcs)(folder / role)
        assert caught.value.hint == f"chmod 600 {secret}"
        secret.chmod(0o600)
    secret.chmod(mode)
    provision(folder, load())
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


@pytest.mark.native
def test_unpinned_identity_is_refused(folder: Path) -> None:
    (folder / "drone" / "pins.json").write_text(json.dumps(["00" * 32]))
    with pytest.raises(KeyMaterialError) as caught:
        load_drone(folder / "drone")
    assert "make keys" in caught.value.hint


@pytest.mark.native
def test_drone_signing_keys_fit_their_registration(key_folder: Path) -> None:
    drone, gcs = load_drone(key_folder / "drone"), load_gcs(key_folder / "gcs")
    registered = gcs.drone_keys(drone.psk.key_id)
    assert set(registered) == set(drone.signing) == set(gcs.identity.secrets)
    assert gcs.drone_keys(b"stranger") == {}
    for token, secret in ((token, clear(key)) for token, key in drone.signing.items()):
        assert secret != clear(gcs.identity.secrets[token])
        assert load().sig(token).verify(registered[token], b"m", load().sig(token).sign(secret, b"m"))


@pytest.mark.native
def test_damaged_registration_and_foreign_secret_are_refused(folder: Path) -> None:
    (folder / "drone" / "sig" / "mldsa65.secret").write_bytes(b"short")
    with pytest.raises(KeyMaterialError, match="no signing key"):
        load_drone(folder / "drone")
    registered = next((folder / "gcs" / "drones").glob("*.json"))
    registered.write_text(registered.read_text().replace("drone-public", "gcs-public"))
    with pytest.raises(KeyMaterialError, match="not a drone identity"):
        load_gcs(folder / "gcs")
    report = provision(folder, load())
    assert "drone/sig/mldsa65" in report.made
    assert provision(folder, load()).made == []


def _another_drone(folder: Path) -> str:
    """Registered by hand, as from another key folder."""
    own = next((folder / "gcs" / "psk").glob("*.secret"))
    other = "0123456789abcdef"
    (folder / "gcs" / "psk" / f"{other}.secret").write_bytes(os.urandom(32))
    (folder / "gcs" / "psk" / f"{other}.secret").chmod(0o600)
    told = json.loads((folder / "gcs" / "drones" / f"{own.stem}.json").read_text())
    (folder / "gcs" / "drones" / f"{other}.json").write_text(json.dumps({**told, "drone_id": other}))
    return other


@pytest.mark.native
def test_other_drones_of_the_gcs_are_left_alone(folder: Path) -> None:
    """Also where this folder's own drone gets another id: its former one is forgotten, and no other."""
    other, own = _another_drone(folder), load_drone(folder / "drone").psk.key_id.hex()
    report = provision(folder, load())
    assert (report.made, report.others) == ([], [other])
    assert {drone.key_id.hex() for drone in load_gcs(folder / "gcs").psks} == {own, other}
    (folder / "drone" / "psk.secret").write_bytes(b"damaged")
    assert provision(folder, load()).others == [other]
    renewed = load_drone(folder / "drone").psk.key_id.hex()
    gcs = load_gcs(folder / "gcs")
    assert {drone.key_id.hex() for drone in gcs.psks} == {renewed, other} and renewed != own
    assert {drone_id.hex() for drone_id in gcs.drones} == {renewed, other}


@pytest.mark.native
def test_one_drone_is_revoked_and_no_other(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other, own = _another_drone(folder), load_drone(folder / "drone").psk.key_id.hex()
    assert main(["keys", "--out", str(folder), "--revoke", "ff" * 8]) != 0
    assert f"it knows {', '.join(sorted((own, other)))}" in capsys.readouterr().err
    assert main(["keys", "--out", str(folder), "--revoke", own]) != 0
    assert "--force" in capsys.readouterr().err
    assert {drone.key_id.hex() for drone in load_gcs(folder / "gcs").psks} == {own, other}
    assert main(["keys", "--out", str(folder), "--revoke", other]) == 0
    assert f"drone {other} is revoked" in capsys.readouterr().out
    gcs = load_gcs(folder / "gcs")
    assert {drone.key_id.hex() for drone in gcs.psks} == {drone.hex() for drone in gcs.drones} == {own}
    assert provision(folder, load()).others == []


@pytest.mark.native
def test_rotation_overlaps_and_ends_with_the_new_identity_alone(folder: Path) -> None:
    before = load_gcs(folder / "gcs").identity.public.key_id
    with pytest.raises(KeyMaterialError, match="no next identity"):
        provision(folder, load(), rotate=True)
    assert load_gcs(folder / "gcs").identity.public.key_id == before
    begun = provision(folder, load(), second_pin=True)
    assert begun.gcs_key_id == before.hex() and begun.next_key_id not in ("", before.hex())
    trusted = {identity.key_id.hex() for identity in load_drone(folder / "drone").trusted}
    assert trusted == {begun.gcs_key_id, begun.next_key_id}
    assert provision(folder, load()).made == []  # a plain run in between keeps both
    done = provision(folder, load(), rotate=True)
    assert done.gcs_key_id == begun.next_key_id and done.next_key_id == ""
    assert [i.key_id.hex() for i in load_drone(folder / "drone").trusted] == [begun.next_key_id]
    assert load_gcs(folder / "gcs").identity.public.key_id.hex() == begun.next_key_id
    assert not (folder / "next").exists() and provision(folder, load()).made == []


@pytest.mark.native
def test_two_pins_trust_two_identities(folder: Path, tmp_path: Path) -> None:
    provision(tmp_path / "next", load())
    shutil.copy(tmp_path / "next" / "gcs" / "gcs.identity.json", folder / "drone" / "next.identity.json")
    pins = json.loads((folder / "drone" / "pins.json").read_text())
    next_pin = json.loads((folder / "drone" / "next.identity.json").read_text())["key_id"]
    assert len(load_drone(folder / "drone").trusted) == 1  # not before it is pinned
    (folder / "drone" / "pins.json").write_text(json.dumps([*pins, next_pin]))
    assert len(load_drone(folder / "drone").trusted) == 2


def test_missing_keys_name_the_file_and_the_command(tmp_path: Path) -> None:
    for read in (load_drone, load_gcs):
        with pytest.raises(KeyMaterialError) as caught:
            read(tmp_path)
        assert str(tmp_path) in str(caught.value)
        assert "make keys" in caught.value.hint


def test_certificates_are_judged_by_ca_role_and_pair() -> None:
    ours, other = Authority.new(), Authority.new()
    cert, key = ours.issue("drone")
    assert certificate_is_good(cert, key, ours, "drone")
    assert not certificate_is_good(cert, key, other, "drone")
    assert not certificate_is_good(cert, key, ours, "gcs")
    assert not certificate_is_good(cert, ours.issue("drone")[1], ours, "drone")
    assert not certificate_is_good(b"junk", key, ours, "drone")
    assert Authority.from_pem(ours.cert_pem(), other.key_pem()) is None


@pytest.mark.native
@pytest.mark.linux("gives files to another user")
@pytest.mark.skipif(not IS_ROOT, reason="giving files away needs root")
def test_owner(folder: Path) -> None:
    provision(folder, load(), owner=(10001, 10002))
    for path in (folder, *folder.rglob("*")):
        assert (path.stat().st_uid, path.stat().st_gid) == (10001, 10002)


def test_command_line_errors_and_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "--out", str(tmp_path), "--owner", "me"]) == 2
    assert "UID:GID" in capsys.readouterr().err
    assert main(["suites", "cs-mlkem768-aesgcm-mldsa66"]) == 2
    assert "cs-mlkem768-aesgcm-mldsa65" in capsys.readouterr().err
    assert main(["gcs", "--plaintext-target", "x"]) == 2
    assert main(["suites", "--json", "cs-mlkem*-aesgcm-*"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 9 - 1
    with pytest.raises(SystemExit) as caught:
        main(["nothing"])
    assert caught.value.code == 2
    capsys.readouterr()
    for argv, next_step in (
        ([], "./pqtunnel --help"),
        (["keys", "--speed", "9"], "./pqtunnel --help"),
        (["bench"], "./pqtunnel bench --help"),
    ):
        with pytest.raises(SystemExit) as caught:
            main(argv)
        assert caught.value.code == 2
        lines = capsys.readouterr().err.splitlines()
        assert [line[:8] for line in lines] == ["pqtunnel", "  why:  ", "  next: "]
        assert lines[0].endswith("[usage]") and lines[1].startswith("  why:  usage: pqtunnel")
        assert lines[2] == f"  next: {next_step}"


@pytest.mark.native
def test_missing_keys_stop_the_endpoint_with_code_4(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PQ_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PQ_KEYS", str(tmp_path / "absent"))
    assert main(["gcs", "--plaintext-target", "127.0.0.1:1"]) == 4
    assert "make keys" in capsys.readouterr().err


@pytest.mark.native
@pytest.mark.linux("closes files by their mode")
@pytest.mark.skipif(IS_ROOT, reason="root may read everything")
@pytest.mark.parametrize(
    "closed", [".", "tls.key.pem", "ca.cert.pem", "sig", "psk", "drones", "gcs.identity.json"]
)
def test_keys_of_another_owner_stop_the_endpoint_with_one_sentence(
    folder: Path,
    tmp_path: Path,
    closed: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PQ_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PQ_KEYS", str(folder / "gcs"))
    (folder / "gcs" / closed).chmod(0)
    try:
        assert main(["gcs", "--plaintext-target", "127.0.0.1:1"]) == 4
    finally:
        (folder / "gcs" / closed).chmod(0o700)
    sentence, following = capsys.readouterr().err.splitlines()
    assert "cannot be read: Permission denied" in sentence
    assert f"chown -R {os.getuid()}:{os.getgid()} keys" in following and "cp -a" in following


@pytest.mark.native
@pytest.mark.linux("closes folders by their mode")
@pytest.mark.skipif(IS_ROOT, reason="root may list everything")
@pytest.mark.parametrize("hidden", ["sig", "."])
def test_a_drone_never_takes_unreadable_keys_for_absent_ones(folder: Path, hidden: str) -> None:
    (folder / "drone" / hidden).chmod(0)
    try:
        with pytest.raises(KeyMaterialError, match="cannot be read") as caught:
            load_drone(folder / "drone")
    finally:
        (folder / "drone" / hidden).chmod(0o700)
    assert "chown" in caught.value.hint


@pytest.mark.native
@pytest.mark.linux("closes folders by their mode")
@pytest.mark.skipif(IS_ROOT, reason="root may list everything")
def test_keys_of_another_owner_are_not_made_anew(folder: Path) -> None:
    (folder / "drone" / "sig").chmod(0)
    try:
        with pytest.raises(KeyMaterialError, match="Permission denied") as caught:
            provision(folder, load())
    finally:
        (folder / "drone" / "sig").chmod(0o700)
    assert caught.value.code == "keys_not_written" and "chown" in caught.value.hint


class Killed(BaseException):
    """What no handler catches, as a signal would."""


@pytest.mark.native
@pytest.mark.parametrize("dies_at", ["signing keys", "Falcon-1024"])
def test_a_run_that_was_killed_is_not_taken_as_complete(tmp_path: Path, dies_at: str) -> None:
    root = tmp_path / "keys"

    def progress(text: str) -> None:
        if text == dies_at:
            raise Killed

    with pytest.raises(Killed):
        provision(root, load(), progress=progress)
    assert (root / "gcs").is_dir() and not (root / COMPLETE_FILE).exists()
    report = provision(root, load())
    assert "controller/tls" in report.kept and report.made
    assert (root / COMPLETE_FILE).is_file() and provision(root, load()).made == []


@pytest.mark.native
def test_a_set_stops_being_complete_while_it_is_made_again(folder: Path) -> None:
    seen: list[bool] = []
    provision(folder, load(), force=True, progress=lambda _: seen.append((folder / COMPLETE_FILE).exists()))
    assert seen and not any(seen) and (folder / COMPLETE_FILE).is_file()


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("pqtunnel.cli._suites", stop)
    assert main(["suites"]) == 130
    assert "the same command again" in capsys.readouterr().err
