"""ONNX Runtime as we use it: one thread, no arena that grows, numpy in and out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pqdetect.models.card import ModelError

Array = NDArray[np.float32]


class Run(Protocol):
    """A loaded graph: named inputs to its outputs in order."""

    def __call__(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Compute all outputs."""
        ...


def open_graph(path: Path) -> Run:
    """Load a graph; raises `ModelError` where ONNX Runtime is missing or refuses the file."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ModelError(
            f"ONNX Runtime is not installed here ({error})", hint="run it in the images: ./pqdetect"
        ) from error
    # Nothing here reports to anybody.
    onnxruntime.set_default_logger_severity(3)
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    # A window is one small call each 0.6 s: threads that spin for the next one would cost more than the work.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime raises many classes, none of them public
        raise ModelError(f"{path} cannot be loaded ({error})") from error

    def run(inputs: Mapping[str, Array]) -> list[Array]:
        return [np.asarray(value) for value in session.run(None, dict(inputs))]

    return run
