"""`verify.pyz`: the checks as one file that needs Python 3.11 and nothing else.

A zip archive that Python runs (PEP 441): every module of ours that the checks can reach, the data files
beside them, the published tables, the detectors' models of trees, and the three libraries they use, which are
pure Python and whose licences come along. The same tree and libraries give the same bytes.

It is made by whoever checks, from a tree they trust, and is not put into bundles: a checker that comes with
what it checks proves nothing.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import io
import json
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from pqevidence.analysis.comparison import reference_dir
from pqevidence.errors import LabError
from pqevidence.measures import MEASURES
from pqevidence.record.sheet import catalogue_files

ENTRY = "pqevidence.verify.alone"
#: they are imported by name
_MEASURES = [f"pqevidence.measures.{measure.name}" for measure in MEASURES]
#: import name → distribution: pure Python where its compiled part is left out
LIBRARIES = {"yaml": "PyYAML", "jinja2": "Jinja2", "markupsafe": "MarkupSafe"}
OURS = ("pqbase", "pqevidence", "pqtunnel", "pqtelemetry", "pqsitl", "pqlink", "pqdetect", "pqattack")
_DATA_SUFFIXES = (".json", ".yml", ".j2", ".css", ".js", ".csv")
_SHEBANG = b"#!/usr/bin/env python3\n"
#: the first moment a zip archive can name
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MAIN = f"""\
import sys

if sys.version_info < (3, 11):
    sys.stderr.write("error: Python %d.%d is too old\\n  next: python3.11 or newer\\n" % sys.version_info[:2])
    sys.exit(4)
from {ENTRY} import main

sys.exit(main())
"""


@dataclass(frozen=True)
class Exported:
    """The file that was written, how many files it holds, its size in bytes."""

    file: Path
    files_count: int
    size_bytes: int


def export(target: Path) -> Exported:
    """Write the checker to `target`, which must not be there yet.

    Raises LabError `exists`; `not-portable` when the checks reach a module that cannot come along;
    `no-reference` when the published tables are not at hand.
    """
    if target.exists():
        raise LabError(
            "exists",
            f"{target.name} is there already",
            "what is there is never overwritten",
            "move it away, or name another file: --export FILE",
        )
    content = dict(sorted(contents().items()))
    half = target.with_name(f".{target.name}.half")
    half.write_bytes(_SHEBANG + _zipped(content))
    half.chmod(0o755)
    half.replace(target)
    return Exported(target, len(content), target.stat().st_size)


def contents() -> dict[str, bytes]:
    """Name in the archive → bytes. Raises LabError as `export`."""
    found = {"__main__.py": _MAIN.encode()}
    for module, path in reachable(ENTRY, *_MEASURES).items():
        found[_place(module, path)] = path.read_bytes()
        if path.name == "__init__.py":
            found |= {f"{module.replace('.', '/')}/{name}": data for name, data in _data(path.parent)}
    for name, text in catalogue_files().items():
        as_json = json.dumps(yaml.safe_load(text), ensure_ascii=False, separators=(",", ":"))
        found[f"pqevidence/{name}"] = as_json.encode()
    for name, distribution in LIBRARIES.items():
        found |= dict(_library(name, distribution))
    reference = reference_dir()
    if reference is None:
        raise LabError(
            "no-reference",
            "the published tables are not at hand",
            "results/reference is missing",
            "run from the checkout",
        )
    for table in reference.iterdir():
        if table.name.endswith(".csv"):
            found[f"pqevidence/reference/{table.name}"] = table.read_bytes()
    for measure in MEASURES:
        if measure.models is not None:
            found |= {f"pqevidence/models/{name}": content for name, content in measure.models()}
    return found


def reachable(*entries: str) -> dict[str, Path]:
    """Every module of ours that importing these can import, now or later, with its file.

    Imports inside functions count, those for type checkers alone do not. Raises LabError `not-portable` for
    a module that is neither ours, nor Python's, nor one of LIBRARIES.
    """
    found: dict[str, Path] = {}
    waiting = [(entry, "the command") for entry in entries]
    while waiting:
        name, importer = waiting.pop()
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in LIBRARIES:
            continue
        if top not in OURS:
            raise LabError(
                "not-portable",
                f"{importer} imports {top}",
                f"the checker that stands alone has {', '.join(LIBRARIES)} and Python's own modules only",
                f"keep {top} out of what pqevidence.verify reaches",
            )
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            module = ".".join(parts[:count])
            if module in found:
                continue
            path = _source(module)
            if path is None:
                break  # a name within a module
            found[module] = path
            waiting += [(target, module) for target in _imports(ast.parse(path.read_bytes()))]
    return dict(sorted(found.items()))


def _source(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from _imports(node)


def _place(module: str, path: Path) -> str:
    stem = module.replace(".", "/")
    return f"{stem}/__init__.py" if path.name == "__init__.py" else f"{stem}.py"


def _data(package: Path) -> Iterator[tuple[str, bytes]]:
    """Data files of a package, those in folders that are no packages included."""
    for path in sorted(package.iterdir()):
        if path.is_file() and path.suffix in _DATA_SUFFIXES:
            yield path.name, path.read_bytes()
        elif path.is_dir() and path.name != "__pycache__" and not (path / "__init__.py").is_file():
            yield from ((f"{path.name}/{name}", data) for name, data in _data(path))


def _library(name: str, distribution: str) -> Iterator[tuple[str, bytes]]:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise LabError(
            "not-portable", f"the library {name} is not installed", "the checks need it", "make venv"
        )
    folder = Path(spec.origin).parent
    for path in sorted(folder.rglob("*.py")):
        yield f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes()
    for entry in importlib.metadata.files(distribution) or []:
        if entry.name.upper().startswith(("LICENSE", "COPYING")):
            yield f"licences/{distribution}/{entry.name}", Path(str(entry.locate())).read_bytes()


def _zipped(content: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in content.items():
            about = zipfile.ZipInfo(name, _EPOCH)
            about.compress_type = zipfile.ZIP_DEFLATED
            about.external_attr = 0o644 << 16
            archive.writestr(about, data, compresslevel=9)
    return out.getvalue()
