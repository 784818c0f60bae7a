"""Check the Windows artefacts and write their manifest: architecture, imports, known answers under wine.

    check.py ARTEFACTS PROGRAMS

Exits 1, and so stops the image, when a file is for another machine, imports what Windows does not have, or
computes another answer. The modules for Python run in Windows' own CPython, which the image holds.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import json
import os
import re
import struct
import subprocess
import sys
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SCHEMA = "pqlab/windows-artifacts/v2"
PE_AMD64 = 0x8664
WINE_LIMIT_S = 900
PYTHON = r"C:\Program Files\pqlab\venv\Scripts\python.exe"
OFFLINE = "offline"


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


def wine(*command: str, library: Path | None = None) -> str:
    """Standard output of a Windows command line; `library` holds its DLLs.

    Raises CheckFailed unless it ends with 0.
    """
    environment = dict(os.environ) if library is None else {**os.environ, "WINEPATH": str(library)}
    done = subprocess.run(
        ["wine", *command],
        capture_output=True,
        encoding="utf-8",
        timeout=WINE_LIMIT_S,
        check=False,
        env=environment,
    )
    if done.returncode != 0:
        tail = " ".join((done.stdout + done.stderr).split())[-600:]
        raise CheckFailed(f"{Path(command[0]).name} under wine ended with {done.returncode}: {tail}")
    return done.stdout.replace("\r\n", "\n")


def selftest(programs: Path, library: Path) -> dict[str, Any]:
    """Known answers, known packets and unit tests, as programs."""
    answers = wine(str(programs / "selftest.exe"), library=library).splitlines()
    packets = wine(str(programs / "known_packets.exe"))
    if packets != (programs / "known_packets.txt").read_text():
        raise CheckFailed("the core seals other packets on Windows than on Linux")
    tests = wine(str(programs / "core_tests.exe"))
    passed = re.search(r"(\d+) passed; 0 failed", tests)
    if passed is None:
        raise CheckFailed("the core's unit tests say nothing of having passed")
    return {
        "wine": wine_version(),
        "liboqs_known_answers": [line for line in answers if line.startswith("[")],
        "liboqs": answers[-1],
        "core_known_packets_count": len(packets.splitlines()),
        "core_unit_tests_passed": int(passed[1]),
    }


def wine_version() -> str:
    """Such as "10.0"."""
    done = subprocess.run(["wine", "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split()[0].removeprefix("wine-")


def judged(printed: str) -> list[str]:
    """Lines of `pqtunnel selftest`, without their times, which say nothing under wine.

    Raises CheckFailed when one failed, or none passed. What this build of liboqs lacks is no failure.
    """
    lines = [re.sub(r" \([0-9.]+ ms\)$", "", line) for line in printed.splitlines() if line.startswith("[")]
    failed = [line for line in lines if not line.startswith("[x] ") and ": unsupported: " not in line]
    if failed:
        raise CheckFailed(f"pqtunnel selftest in Windows' CPython: {'; '.join(failed)}")
    if not any(line.startswith("[x] ") for line in lines):
        raise CheckFailed("pqtunnel selftest in Windows' CPython says nothing of having passed")
    return lines


def python_modules() -> dict[str, Any]:
    """Known answers of every primitive, by the installed wheels in Windows' own CPython."""
    return {
        "python": wine(PYTHON, "-V").split()[-1],
        "wine": wine_version(),
        "installed": wine(PYTHON, "-m", "pip", "freeze", "--disable-pip-version-check").split("\n")[:-1],
        "known_answers": judged(wine(PYTHON, "-m", "pqtunnel", "selftest")),
    }


def digests(folder: Path) -> dict[str, dict[str, Any]]:
    """SHA-256 and size of every file right in a folder, by name."""
    return {
        path.name: {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "size_bytes": path.stat().st_size,
        }
        for path in sorted(folder.iterdir())
        if path.is_file()
    }


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
        report, modules = selftest(programs, artifacts), python_modules()
    except CheckFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    manifest = {
        "schema": SCHEMA,
        "platform": "windows/amd64",
        "files": digests(artifacts),
        OFFLINE: digests(artifacts / OFFLINE),
        "images": [asdict(row) for row in rows],
        "provider_build": (programs / "provider").read_text().strip(),
        "selftest": report,
        "python_modules": modules,
    }
    (artifacts / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(json.dumps({**report, **modules}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
