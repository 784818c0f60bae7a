"""Pure functions as tasks: each is named by what it is made of; results come in one order wherever made.

A task is a function, by its import path, of plain values to bytes. Its key is a hash of the function, of the
build that carries it out (sources, Python, libraries) and of the inputs: equal keys have equal results, so
that a task that was lost is simply done again. What measures is no task: a second try is another measurement.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Protocol

from pqbase.text import canonical_json

#: what inputs are made of; tuples count as lists
Plain = None | bool | int | float | str | bytes | Sequence["Plain"] | Mapping[str, "Plain"]
#: what a build is made of, by name: `python`, a library's version, the digest of a package's sources
Build = Mapping[str, str]
Say = Callable[[str], None]
NONE = "none"


@dataclass(frozen=True)
class Ingredients:
    """What the results of a study depend on beside its inputs: packages of this tree by import name, and
    libraries by the name they are installed under."""

    packages: tuple[str, ...]
    libraries: tuple[str, ...] = ()

    def build(self) -> Build:
        """The build at hand. Raises ModuleNotFoundError for a package that is not here."""
        return _build(self)


@cache
def _build(made_of: Ingredients) -> Build:
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in made_of.libraries:
        found[name] = NONE
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    for name in made_of.packages:
        found[f"sources of {name}"] = _sources_sha256(name)
    return found


def _sources_sha256(package: str) -> str:
    """SHA-256 over names and bytes of every file of a package, byte code apart."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"no package {package}", name=package)
    root = Path(spec.submodule_search_locations[0])
    total = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        for part in (path.relative_to(root).as_posix().encode(), path.read_bytes()):
            total.update(len(part).to_bytes(8, "big") + part)
    return total.hexdigest()


def unlike(theirs: Build, ours: Build) -> str | None:
    """In what two builds differ, for an error; None for equal ones."""
    names = [name for name in {**ours, **theirs} if theirs.get(name) != ours.get(name)]
    told = [f"{name} {_short(theirs.get(name))}, here {_short(ours.get(name))}" for name in names]
    return "; ".join(told) or None


def _short(value: str | None) -> str:
    return NONE if value is None else f"{value[:12]}…" if len(value) == 64 else value


@dataclass(frozen=True)
class Task:
    """function: `package.module:name`; label: what progress calls it."""

    function: str
    inputs: tuple[Plain, ...]
    label: str

    @property
    def package(self) -> str:
        """Where its sources are."""
        return self.function.partition(":")[0].partition(".")[0]

    def key(self, build: Build) -> str:
        """SHA-256 (hex) of function, build and inputs."""
        whole = {"function": self.function, "build": dict(build), "inputs": _hashable(self.inputs)}
        return hashlib.sha256(canonical_json(whole)).hexdigest()


def _hashable(value: Plain) -> object:
    """The same without bytes, which JSON has none of."""
    if isinstance(value, bytes):
        return {"sha256": hashlib.sha256(value).hexdigest(), "size_bytes": len(value)}
    if isinstance(value, Mapping):
        return {"members": {name: _hashable(one) for name, one in value.items()}}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_hashable(one) for one in value]
    return value


def call(function: str, inputs: Sequence[Plain]) -> bytes:
    """What the task gives, made here."""
    module, _, name = function.partition(":")
    made: bytes = getattr(importlib.import_module(module), name)(*inputs)
    return made


class Runner(Protocol):
    """Where tasks are carried out; `told` says it for a person."""

    told: str

    def stream(self, tasks: Mapping[str, Task], made_of: Ingredients) -> Iterator[tuple[str, bytes]]:
        """(key, result) of tasks by key, in the order in which they are done."""


class Here:
    """This process, one task after the other."""

    told = "in this process"

    def stream(self, tasks: Mapping[str, Task], made_of: Ingredients) -> Iterator[tuple[str, bytes]]:
        for key, task in tasks.items():
            yield key, call(task.function, task.inputs)


class Kept:
    """Results by key in a folder, for a run that begins again; None: nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def read(self, key: str) -> bytes | None:
        """The result, None where there is none or it is not whole."""
        path = self._path(key)
        if path is None or not path.is_file():
            return None
        digest, _, result = path.read_bytes().partition(b"\n")
        return result if hashlib.sha256(result).hexdigest().encode() == digest else None

    def write(self, key: str, result: bytes) -> None:
        """Whole or not at all."""
        path = self._path(key)
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".half")
        half.write_bytes(hashlib.sha256(result).hexdigest().encode() + b"\n" + result)
        half.replace(path)

    def forget(self, key: str) -> None:
        """It is no longer needed."""
        path = self._path(key)
        if path is not None:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # others are still in it
                path.parent.rmdir()

    def _path(self, key: str) -> Path | None:
        return None if self._folder is None else self._folder / key


def carry_out(
    tasks: Sequence[Task], made_of: Ingredients, runner: Runner, say: Say, keep: Path | None = None
) -> Iterator[bytes]:
    """The results in the order of `tasks`, each as soon as those before it are there.

    say: progress, and at the end one digest of all results, which is equal wherever they were made. keep:
    folder for results until the caller has taken all of them; a second try finds them there.
    """
    if strangers := {task.package for task in tasks} - set(made_of.packages):
        raise ValueError(f"sources of {', '.join(sorted(strangers))} are in no key")
    build = made_of.build()
    keys = [task.key(build) for task in tasks]
    by_key = dict(zip(keys, tasks, strict=True))
    kept = Kept(keep)
    made = {key: result for key in by_key if (result := kept.read(key)) is not None}
    if made:
        say(f"{len(made)} of {len(by_key)} tasks were done before")
    left = {key: task for key, task in by_key.items() if key not in made}
    told, place = len(made), 0
    total = hashlib.sha256()
    arriving = runner.stream(left, made_of) if left else iter(())
    while place < len(keys):
        if keys[place] in made:
            key, result = keys[place], made[keys[place]]
            total.update(f"{key} {hashlib.sha256(result).hexdigest()}\n".encode())
            place += 1
            if key not in keys[place:]:
                del made[key]
            yield result
            continue
        key, result = next(arriving)
        kept.write(key, result)
        made[key] = result
        told += 1
        say(f"[{told:>{len(str(len(by_key)))}}/{len(by_key)}] {by_key[key].label}")
    for key in by_key:
        kept.forget(key)
    say(f"{len(by_key)} tasks {runner.told}; sha256 of their results {total.hexdigest()}")
