"""Search one parser for inputs that break it.

    python tests/fuzz/run.py TARGET --seconds 60 --seed 1 [--engine atheris|own] [--keep] [--log FILE]
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
import targets  # noqa: E402


def search(name: str, seconds: float, seed: int, wanted: str) -> engine.Result:
    """One search with the committed corpus as its start."""
    target = targets.find(name)
    corpus = {**target.seeds(), **corpora.load(name)}
    if wanted == "own":
        return engine.own_loop(target.run, corpus, target.words, seconds, seed, target.limit)
    with tempfile.TemporaryDirectory(prefix="pqfuzz-") as temporary:
        folder, out = Path(temporary) / "corpus", Path(temporary) / "result.json"
        folder.mkdir()
        for key, data in corpus.items():
            (folder / key).write_bytes(data)
        command = [
            sys.executable,
            str(HERE / "atheris_child.py"),
            name,
            str(out),
            str(folder),
            str(seconds),
            str(seed),
            str(target.limit),
        ]
        done = subprocess.run(
            command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if not out.is_file():
            raise SystemExit(
                f"error: {name}: atheris ended with code {done.returncode} before a report\n"
                + done.stdout.decode(errors="replace")[-2000:]
            )
        result = engine.Result(**_known(json.loads(out.read_text(encoding="utf-8"))))
        result.inputs = [p.read_bytes() for p in folder.iterdir() if p.name not in corpus]
        for trace in Path(temporary).glob("*-*"):  # what libFuzzer itself ended at: crash-, oom-, timeout-
            if trace.name.split("-")[0] in ("crash", "oom", "timeout"):
                kind = trace.name.split("-")[0]
                given = base64.b64encode(trace.read_bytes()).decode()
                result.findings.append({"kind": kind, "where": "process", "text": "", "input": given})
    return result


def _known(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key in engine.Result.__dataclass_fields__}


def keep(name: str, result: engine.Result) -> int:
    """Write the smallest covering set and the findings to the corpus; returns how many inputs it has."""
    target = targets.find(name)
    held = {**target.seeds(), **corpora.load(name)}  # seeds live in the code, the pack holds the rest
    named = {key: data for key, data in held.items() if key.startswith("finding-")}
    for finding in result.findings:
        data = base64.b64decode(finding["input"])
        named[corpora.name_of(data, "finding")] = data
    small = [data for data in [*held.values(), *result.inputs] if len(data) <= corpora.MAX_INPUT_BYTES]
    total = sum(map(len, named.values()))
    for data in engine.minimise(target.run, small):
        if data in held.values() and data not in set(corpora.load(name).values()):
            continue  # a seed
        if data in named.values() or total + len(data) > corpora.MAX_PACK_BYTES:
            continue
        total += len(data)
        named[corpora.name_of(data)] = data
    corpora.save(name, named)
    return len(named)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", nargs="?", choices=sorted(targets.names()), metavar="TARGET")
    parser.add_argument("--list", action="store_true", help="name the targets and what they read")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("atheris", "own"))
    parser.add_argument("--keep", action="store_true", help="write what is new to the committed corpus")
    parser.add_argument("--log", type=Path, help="write the JSON also here")
    args = parser.parse_args()
    if args.list or args.target is None:
        for name in sorted(targets.names()):
            print(f"{name:20} {targets.find(name).about}")
        return 0
    if missing := targets.find(args.target).missing():
        print(f"skipped: {missing}", file=sys.stderr)
        return 0
    wanted = args.engine or ("atheris" if importlib.util.find_spec("atheris") else "own")
    result = search(args.target, args.seconds, args.seed, wanted)
    document = {
        "target": args.target,
        "engine": result.engine,
        "seed": args.seed,
        "executions": result.executions,
        "wall_s": round(result.wall_s, 1),
        "cpu_s": round(result.cpu_s, 1),
        "new_inputs": len(result.inputs),
        "lines_covered": result.lines_covered,
        "python": sys.version.split()[0],
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "findings": result.findings,
    }
    if args.keep:
        document["corpus_inputs"] = keep(args.target, result)
    line = json.dumps(document)
    if args.log is not None:
        args.log.write_text(line + "\n", encoding="utf-8")
    print(line)
    return 1 if result.findings else 0


if __name__ == "__main__":
    sys.exit(main())
