"""One search by libFuzzer in a process of its own: a Python target under atheris, or a native one.

The search can be asked to end at any time; what it has found by then is kept in its folder.
"""

from __future__ import annotations

import base64
import json
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpora
import engine
import native
import targets

HERE = Path(__file__).parent
MEMORY_MB = 2048
_WALL_LIMIT_S = 3600
"""For one input, on the wall's clock: a search that yields may be starved for long. Python targets have a
limit in processor time besides."""
_POLL_S = 0.5
_PATIENCE_S = 120.0


def search(
    name: str, folder: Path, seconds: float, seed: int, stop: Callable[[], bool] = lambda: False
) -> engine.Result:
    """Search for at most `seconds`, or until `stop` says so; inputs that reach further stay in folder/corpus.

    Raises SystemExit when the search could not be begun.
    """
    corpus, out = folder / "corpus", folder / "result.json"
    corpus.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)
    for trace in _traces(folder):
        trace.unlink()
    options = [
        f"-max_total_time={max(1, int(seconds))}",
        f"-seed={seed}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-timeout={_WALL_LIMIT_S}",
        f"-report_slow_units={_WALL_LIMIT_S}",
        "-print_final_stats=1",
        f"-artifact_prefix={folder}/trace-",
    ]
    command = _command(name, folder, corpus, out, options)
    before = {path.name for path in corpus.iterdir()}
    used_s, begin_s = _children_cpu_s(), time.monotonic()
    with (folder / "log").open("w+", encoding="utf-8", errors="replace") as log:
        child = subprocess.Popen(command, cwd=HERE, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait(child, stop)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        log.seek(0)
        text = log.read()
    result = _result(name, out, seed)
    _read_statistics(result, text)
    if result.executions == 0 and child.returncode != -signal.SIGUSR1:  # not: ended before it had begun
        raise SystemExit(
            f"error: {name}: the search ended with code {child.returncode} before its first input\n"
            + text[-2000:]
        )
    if name in native.TARGETS:
        result.wall_s, result.cpu_s = time.monotonic() - begin_s, _children_cpu_s() - used_s
    result.inputs = [path.read_bytes() for path in sorted(corpus.iterdir()) if path.name not in before]
    for trace in _traces(folder):  # what libFuzzer itself ended at: crash-, oom-, timeout-
        given = base64.b64encode(trace.read_bytes()).decode()
        result.findings.append(
            {"kind": trace.name.split("-")[1], "where": "process", "text": "", "input": given}
        )
    return result


def _traces(folder: Path) -> list[Path]:
    return sorted(folder.glob("trace-*"))


def _command(name: str, folder: Path, corpus: Path, out: Path, options: list[str]) -> list[str]:
    if name in native.TARGETS:
        subject = native.TARGETS[name]
        program = subject.program
        if program is None:
            raise SystemExit(f"error: {name} is not built; build it: {subject.build}")
        return [str(program), *options, "-max_len=4096", str(corpus), str(subject.seeds)]
    target = targets.find(name)
    for key, data in {**target.seeds(), **corpora.load(name)}.items():
        (corpus / key).write_bytes(data)
    if target.words:  # an empty dictionary is an error to libFuzzer
        words = folder / "words"
        words.write_text("".join(f'"{_quoted(word)}"\n' for word in target.words), encoding="ascii")
        options = [*options, f"-dict={words}"]
    child = str(HERE / "atheris_child.py")
    return [sys.executable, child, name, str(out), *options, f"-max_len={target.limit}", str(corpus)]


def _quoted(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _wait(child: subprocess.Popen[bytes], stop: Callable[[], bool]) -> None:
    asked_s: float | None = None
    while child.poll() is None:
        time.sleep(_POLL_S)
        if asked_s is None and stop():
            child.send_signal(signal.SIGUSR1)  # libFuzzer ends after the input at hand, with its statistics
            asked_s = time.monotonic()
        elif asked_s is not None and time.monotonic() - asked_s > _PATIENCE_S:
            child.kill()


def _result(name: str, out: Path, seed: int) -> engine.Result:
    if not out.is_file():
        return engine.Result("libFuzzer" if name in native.TARGETS else "atheris", seed)
    document: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return engine.Result(**{**document, "seed": seed})


def _read_statistics(result: engine.Result, text: str) -> None:
    covered = re.findall(r"\bcov: (\d+)", text)
    result.edges = int(covered[-1]) if covered else None
    counted = re.findall(r"^stat::number_of_executed_units: (\d+)", text, re.MULTILINE)
    if result.executions == 0:  # a native target: nobody else counted
        result.executions = int(counted[-1]) if counted else 0


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
