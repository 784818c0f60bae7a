"""Lay the files of the Maven artefact out as Windows' CPython lies on a machine, and make what it lacks.

    layout.py JAR TARGET

The artefact has no python3.dll, which modules of the stable ABI import, and no venvlauncher.exe, which
`python -m venv` copies. The first is made here as a DLL that forwards every name of the artefact's own
python3.lib to python313.dll (PE format, forwarder RVA). For the second python.exe itself is taken: it finds
its home by pyvenv.cfg.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

TOOLS = "x86_64-w64-mingw32-"
INSIDE = Path("org/bytedeco/cpython/windows-x86_64")


def stable_names(library: Path) -> list[str]:
    """Names that an import library gives, sorted."""
    done = subprocess.run([f"{TOOLS}nm", str(library)], capture_output=True, text=True, check=True)
    return sorted(set(re.findall(r"__imp_(\w+)$", done.stdout, re.MULTILINE)))


def forwarder(names: list[str], onto: str, target: Path) -> None:
    """Write a DLL whose every export is the same name of `onto` (a DLL's name without its ending)."""
    with tempfile.TemporaryDirectory() as folder:
        definition = Path(folder) / "forward.def"
        lines = [f"  {name}={onto}.{name}" for name in names]
        definition.write_text("\n".join([f"LIBRARY {target.name}", "EXPORTS", *lines]) + "\n")
        command = [f"{TOOLS}gcc", "-shared", "-nostdlib", "-Wl,--entry=0", str(definition), "-o", str(target)]
        subprocess.run(command, check=True)


def main() -> None:
    """See the module."""
    jar, target = Path(sys.argv[1]), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(jar) as archive:
            archive.extractall(folder)
        source = Path(folder) / INSIDE
        target.mkdir(parents=True)
        for name in ("python.exe", "python313.dll"):
            shutil.copy(source / name, target)
        shutil.copy(source / "bin/pythonw.exe", target)
        shutil.copytree(source / "lib", target / "Lib")
        for path in target.glob("Lib/vcruntime140*.dll"):
            path.rename(target / path.name)
        forwarder(stable_names(source / "libs/python3.lib"), "python313", target / "python3.dll")
    launchers = target / "Lib/venv/scripts/nt"
    launchers.mkdir(exist_ok=True)
    shutil.copy(target / "python.exe", launchers / "venvlauncher.exe")
    shutil.copy(target / "pythonw.exe", launchers / "venvwlauncher.exe")


if __name__ == "__main__":
    main()
