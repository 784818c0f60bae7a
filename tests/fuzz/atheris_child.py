"""Runs one target under atheris; started by `libfuzzer` as a process of its own, because libFuzzer ends it.

atheris_child.py TARGET RESULT.json [libFuzzer's options and folders]
"""

from __future__ import annotations

import json
import resource
import sys
import time
from importlib import metadata
from pathlib import Path

import atheris
import engine


def main() -> None:
    name, out = sys.argv[1:3]
    with atheris.instrument_imports(
        include=["pqbase", "pqtunnel", "pqspec", "pqlab", "pqsitl", "pqtelemetry", "pqlink", "pqattack"]
    ):
        import targets

        target = targets.find(name)
    target.run(b"")  # what is made on first use is no part of the search
    engine.watch()
    result = engine.Result(f"atheris {metadata.version('atheris')}", 0)
    begin_s, begun = time.monotonic(), _cpu_s()
    next_report_s, told = begin_s, 0

    def one(data: bytes) -> None:
        nonlocal next_report_s, told
        engine.guarded(target.run, data, result)
        now_s = time.monotonic()
        if now_s < next_report_s and told == len(result.findings):
            return
        next_report_s, told = now_s + 1.0, len(result.findings)  # libFuzzer ends this process without a word
        document = {**vars(result), "inputs": [], "wall_s": now_s - begin_s, "cpu_s": _cpu_s() - begun}
        half = Path(out).with_suffix(".half")
        half.write_text(json.dumps(document) + "\n", encoding="utf-8")
        half.replace(out)

    atheris.Setup([sys.argv[0], *sys.argv[3:]], one)
    atheris.Fuzz()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
