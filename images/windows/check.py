"""Check the Windows artefacts and write their manifest: architecture, imports, known answers under wine.

    check.py ARTEFACTS PROGRAMS

Exits 1, and so stops the image, when a file is for another machine, imports what Windows does not have, or
computes another answer. Where wine did not install, the manifest says so and no known answer is claimed.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SCHEMA = "pqlab/windows-artifacts/v1"
PE_AMD64 = 0x8664
WINE_LIMIT_S = 900
NOT_RUN = (
    "checked by imports and architecture alone: Windows' own CPython is not in a package registry; the same "
    "source's unit tests and known packets ran as programs"
)


class CheckFailed(Exception):
    """An artefact is not what it has to be."""


@dataclass(frozen=True)
class Image:
    """One PE image: where it lies and what its header says."""

    path: str
    sha256: str
    size_bytes: int
    architecture: str
    imports: list[str]


def architecture(data: bytes) -> str:
    """Machine of a PE image (PE format, COFF file header). Raises CheckFailed for anything but amd64."""
    if data[:2] != b"MZ" or len(data) < 64:
        raise CheckFailed("not a Windows image")
    at = struct.unpack_from("<I", data, 60)[0]
    if data[at : at + 4] != b"PE\0\0":
        raise CheckFailed("no PE header")
    machine = struct.unpack_from("<H", data, at + 4)[0]
    if machine != PE_AMD64:
        raise CheckFailed(f"built for machine {machine:#06x}, not amd64")
    return "windows/amd64"


def imported(path: Path) -> list[str]:
    """DLLs an image imports, by objdump."""
    done = subprocess.run(
        ["x86_64-w64-mingw32-objdump", "-p", str(path)], capture_output=True, text=True, check=True
    )
    return sorted({name.lower() for name in re.findall(r"DLL Name: (\S+)", done.stdout)})


def allowed(names: list[str], patterns: list[str]) -> list[str]:
    """Those that no pattern allows."""
    return [name for name in names if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def images(folder: Path, scratch: Path) -> list[Image]:
    """Every program, DLL and PYD, also inside wheels."""
    found: list[tuple[str, bytes]] = []
    for path in sorted(folder.iterdir()):
        if path.suffix in (".dll", ".exe"):
            found.append((path.name, path.read_bytes()))
        elif path.suffix == ".whl":
            with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as wheel:
                inside = [name for name in wheel.namelist() if name.endswith((".pyd", ".dll"))]
                if not inside:
                    raise CheckFailed(f"{path.name} holds no native module")
                found += [(f"{path.name}!{name}", wheel.read(name)) for name in inside]
    rows = []
    for name, data in found:
        copy = scratch / "image"
        copy.write_bytes(data)
        try:
            rows.append(
                Image(name, hashlib.sha256(data).hexdigest(), len(data), architecture(data), imported(copy))
            )
        except CheckFailed as error:
            raise CheckFailed(f"{name}: {error}") from error
    if not rows:
        raise CheckFailed(f"{folder} holds no artefact")
    return rows


def wine(program: Path, *, library: Path) -> str:
    """Standard output of a program under wine. Raises CheckFailed when it does not end with 0."""
    environment = {
        **os.environ,
        "WINEDEBUG": "-all",
        "WINEPREFIX": "/tmp/wine",
        "WINEPATH": str(library),
        "HOME": "/tmp",
    }
    done = subprocess.run(
        ["wine", str(program)],
        capture_output=True,
        text=True,
        timeout=WINE_LIMIT_S,
        check=False,
        env=environment,
    )
    if done.returncode != 0:
        tail = " ".join((done.stdout + done.stderr).split())[-600:]
        raise CheckFailed(f"{program.name} under wine ended with {done.returncode}: {tail}")
    return done.stdout.replace("\r\n", "\n")


def selftest(programs: Path, library: Path) -> dict[str, Any]:
    """Known answers, known packets and unit tests; or why none ran."""
    if Path("/no-wine").exists() or shutil.which("wine") is None:
        return {"ran": False, "reason": "wine does not install here"}
    version = subprocess.run(["wine", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    answers = wine(programs / "selftest.exe", library=library).splitlines()
    packets = wine(programs / "known_packets.exe", library=library)
    if packets != (programs / "known_packets.txt").read_text():
        raise CheckFailed("the core seals other packets on Windows than on Linux")
    tests = wine(programs / "core_tests.exe", library=library)
    passed = re.search(r"(\d+) passed; 0 failed", tests)
    if passed is None:
        raise CheckFailed("the core's unit tests say nothing of having passed")
    return {
        "ran": True, "wine": version,
        "liboqs_known_answers": [line for line in answers if line.startswith("[")],
        "liboqs": answers[-1],
        "core_known_packets_count": len(packets.splitlines()),
        "core_unit_tests_passed": int(passed[1]),
    }  # fmt: skip


def main() -> int:
    """See the module."""
    artifacts, programs = Path(sys.argv[1]), Path(sys.argv[2])
    patterns = [
        line for line in (programs / "imports.txt").read_text().splitlines() if line and line[0] != "#"
    ]
    try:
        rows = images(artifacts, programs)
        for row in rows:
            strange = allowed(row.imports, patterns)
            if strange:
                raise CheckFailed(
                    f"{row.path} imports {', '.join(strange)}, which imports.txt does not allow"
                )
        report = selftest(programs, artifacts)
    except CheckFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    files = {
        path.name: {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "size_bytes": path.stat().st_size,
        }
        for path in sorted(artifacts.iterdir())
    }
    manifest = {
        "schema": SCHEMA, "platform": "windows/amd64", "files": files,
        "images": [asdict(row) for row in rows],
        "provider_build": (programs / "provider").read_text().strip(),
        "selftest": report, "python_modules": NOT_RUN,
    }  # fmt: skip
    (artifacts / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
