"""The checker of the Windows artefacts refuses what it should; built ones are what they say."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import struct
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "artifacts" / "windows-amd64"


def _checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("windows_check", ROOT / "images" / "windows" / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


check = _checker()


def image(machine: int) -> bytes:
    head = bytearray(b"MZ" + bytes(62))
    struct.pack_into("<I", head, 60, 64)
    return bytes(head) + b"PE\0\0" + struct.pack("<H", machine) + bytes(18)


def test_only_amd64_images_pass() -> None:
    assert check.architecture(image(0x8664)) == "windows/amd64"
    for data in (image(0xAA64), image(0x014C), b"\x7fELF" + bytes(80), b"MZ" + bytes(100), b"MZ"):
        with pytest.raises(check.CheckFailed):
            check.architecture(data)


def test_an_import_that_windows_does_not_have_is_found() -> None:
    lines = (ROOT / "images" / "windows" / "imports.txt").read_text().splitlines()
    patterns = [line for line in lines if line and line[0] != "#"]
    names = ["kernel32.dll", "api-ms-win-crt-heap-l1-1-0.dll", "python3.dll"]
    assert check.allowed(names, patterns) == []
    strange = ["libgcc_s_seh-1.dll", "libwinpthread-1.dll", "python313.dll"]
    assert check.allowed([*names, *strange], patterns) == strange


def test_a_folder_without_artefacts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(check.CheckFailed):
        check.images(tmp_path, tmp_path)


def test_built_artefacts_are_what_their_manifest_says() -> None:
    if not (BUILT / "manifest.json").is_file():
        pytest.skip("artifacts/windows-amd64 was not built: `make artifacts-windows`")
    manifest = json.loads((BUILT / "manifest.json").read_text())
    there = {path.name for path in BUILT.iterdir()} - {"manifest.json"}
    assert there == {*manifest["files"], "offline"}
    assert {path.name for path in (BUILT / "offline").iterdir()} == set(manifest["offline"])
    for folder, rows in ((BUILT, manifest["files"]), (BUILT / "offline", manifest["offline"])):
        for name, row in rows.items():
            assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == row["sha256"]
    assert {row["architecture"] for row in manifest["images"]} == {"windows/amd64"}
    assert any(name.startswith("pq_core-") and name.endswith("win_amd64.whl") for name in there)
    selftest, modules = manifest["selftest"], manifest["python_modules"]
    assert len(selftest["liboqs_known_answers"]) >= 17
    assert all(line.startswith("[x] ") for line in selftest["liboqs_known_answers"])
    assert selftest["core_unit_tests_passed"] > 20
    assert (modules["python"][:5], modules["wine"]) == ("3.13.", selftest["wine"])
    assert sum(line.startswith("[x] core/") for line in modules["known_answers"]) >= 4


def test_offline_wheels_are_those_that_the_locks_name() -> None:
    if not (BUILT / "manifest.json").is_file():
        pytest.skip("artifacts/windows-amd64 was not built: `make artifacts-windows`")
    locks = "".join(
        (ROOT / "requirements" / f"{name}.txt").read_text() for name in ("tunnel", "sitl", "sitl-nodeps")
    )
    offline = json.loads((BUILT / "manifest.json").read_text())["offline"]
    assert all(f"sha256:{row['sha256']}" in locks for row in offline.values())


def test_a_self_test_counts_only_when_nothing_failed() -> None:
    lacks = "[ ] sig/slhdsa128s: unsupported: not in this build"
    printed = f"[x] kem/mlkem512: NIST vector 0 reproduced (1.2 ms)\n{lacks}\nmore\n"
    assert check.judged(printed) == ["[x] kem/mlkem512: NIST vector 0 reproduced", lacks]
    for broken in (printed + "[ ] kem/mlkem768: another answer\n", f"{lacks}\n", ""):
        with pytest.raises(check.CheckFailed):
            check.judged(broken)
