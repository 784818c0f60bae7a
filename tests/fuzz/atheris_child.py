"""Runs one target under atheris; started by run.py as a process of its own, because libFuzzer ends it.

atheris_child.py TARGET RESULT.json CORPUS_FOLDER SECONDS SEED LIMIT
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

MEMORY_MB = 3072


def main() -> None:
    name, out, folder, seconds, seed, limit = sys.argv[1:7]
    with atheris.instrument_imports(
        include=["pqtunnel", "pqlab", "pqsitl", "pqtelemetry", "pqlink", "pqattack"]
    ):
        import targets

        target = targets.find(name)
    result = engine.Result(f"atheris {metadata.version('atheris')}", int(seed))
    begin_s = time.monotonic()

    def report() -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        document = {
            **vars(result),
            "wall_s": time.monotonic() - begin_s,
            "cpu_s": used.ru_utime + used.ru_stime,
            "inputs": [],
            "max_rss_mb": used.ru_maxrss // 1024,
        }
        Path(out).write_text(json.dumps(document) + "\n", encoding="utf-8")

    next_report_s = begin_s

    def one(data: bytes) -> None:
        nonlocal next_report_s
        engine.guarded(target.run, data, result, limit_s=0)
        if time.monotonic() >= next_report_s:  # libFuzzer ends this process without a word
            next_report_s = time.monotonic() + 1.0
            report()

    options = [
        f"-max_total_time={int(float(seconds))}",
        f"-seed={seed}",
        f"-max_len={limit}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-timeout={engine.RUN_LIMIT_S}",
        "-print_final_stats=1",
        "-verbosity=0",
        f"-artifact_prefix={folder}/../",
    ]
    if target.words:  # an empty dictionary is an error to libFuzzer
        words = Path(folder).with_suffix(".dict")
        words.write_text("".join(f'"{_quoted(word)}"\n' for word in target.words), encoding="ascii")
        options.append(f"-dict={words}")
    atheris.Setup([sys.argv[0], *options, folder], one)
    atheris.Fuzz()


def _quoted(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main()
