"""Search one parser for inputs that break it.

    python tests/fuzz/run.py TARGET --seconds 60 --seed 1 [--engine libfuzzer|own] [--keep]
    python tests/fuzz/run.py --list

--keep adds what reached new code to the committed corpus, and every finding as `finding-…`. Exit code 1 when
something was found. Ends with one JSON line.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import corpora  # noqa: E402
import engine  # noqa: E402
import hours  # noqa: E402
import libfuzzer  # noqa: E402
import native  # noqa: E402
import targets  # noqa: E402


def own(name: str, seconds: float, seed: int) -> engine.Result:
    """A search by our own loop, with the committed corpus as its start."""
    target = targets.find(name)
    corpus = {**target.seeds(), **corpora.load(name)}
    return engine.own_loop(target.run, corpus, target.words, seconds, seed, target.limit)


def keep_finding(name: str, finding: dict[str, Any]) -> None:
    """Commit the input of a finding: from now on the tests fail until it is mended."""
    data = base64.b64decode(finding["input"])
    if name in native.TARGETS:
        (native.TARGETS[name].seeds / corpora.name_of(data, "finding")).write_bytes(data)
        return
    corpora.save(name, {**corpora.load(name), corpora.name_of(data, "finding"): data})


def keep(name: str, found: Path) -> int:
    """Add to the committed corpus what of the folder `found` covers more; returns how many inputs it has."""
    if name in native.TARGETS:
        subject = native.TARGETS[name]
        command = [str(subject.program), "-set_cover_merge=1", str(subject.seeds), str(found)]
        subprocess.run(command, check=True, capture_output=True)
        return sum(1 for _ in subject.seeds.iterdir())
    target = targets.find(name)
    pack, seeds = corpora.load(name), target.seeds()
    named = {key: data for key, data in pack.items() if key.startswith("finding-")}
    held = {*seeds.values(), *named.values()}
    candidates = [*held, *pack.values(), *(path.read_bytes() for path in sorted(found.iterdir()))]
    total = sum(map(len, named.values()))
    for data in engine.minimise(
        target.run, [one for one in candidates if len(one) <= corpora.MAX_INPUT_BYTES]
    ):
        if data not in held and total + len(data) <= corpora.MAX_PACK_BYTES:
            total += len(data)
            named[corpora.name_of(data)] = data
    corpora.save(name, named)
    return len(named)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", nargs="?", choices=list(hours.subjects()), metavar="TARGET")
    parser.add_argument("--list", action="store_true", help="name the targets and what they read")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("libfuzzer", "own"))
    parser.add_argument("--keep", action="store_true", help="write what is new to the committed corpus")
    args = parser.parse_args()
    if args.list or args.target is None:
        for name, subject in hours.subjects().items():
            print(f"{name:16} {subject.about}")
        return 0
    with tempfile.TemporaryDirectory(prefix="pqfuzz-") as temporary:
        found = Path(temporary) / "corpus"
        found.mkdir()
        if args.target in native.TARGETS:
            wanted = "libfuzzer"
        else:
            wanted = args.engine or ("libfuzzer" if importlib.util.find_spec("atheris") else "own")
        if wanted == "own":
            result = own(args.target, args.seconds, args.seed)
            for data in result.inputs:
                (found / corpora.name_of(data)).write_bytes(data)
        else:
            result = libfuzzer.search(args.target, Path(temporary), args.seconds, args.seed)
        document = {
            "target": args.target,
            "engine": result.engine,
            "seed": args.seed,
            "executions": result.executions,
            "wall_s": round(result.wall_s, 1),
            "cpu_s": round(result.cpu_s, 1),
            "new_inputs": len(result.inputs),
            "lines_covered": result.lines_covered,
            "edges": result.edges,
            "python": sys.version.split()[0],
            "load_average": [round(value, 2) for value in os.getloadavg()],
            "findings": result.findings,
        }
        if args.keep:
            for finding in result.findings:
                keep_finding(args.target, finding)
            document["corpus_inputs"] = keep(args.target, found)
    print(json.dumps(document))
    return 1 if result.findings else 0


if __name__ == "__main__":
    sys.exit(main())
