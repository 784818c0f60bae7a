"""Features of a window and of its history; schema `pqdetect/features/v1`.

`window` makes one row from one window, `scales` looks back over rows, `stream` does both as windows come. All
of it is causal, and the batch forms give what the stream gives (tests hold them against each other). Values
are in plain units, unscaled; what is unknown is NaN: the interface's counters where they were not read, sizes
of no datagrams. Scaling belongs to a model's card.
"""

from pqdetect.features.scales import (
    FIVE_WINDOW_NAMES,
    MULTI_SCALE_NAMES,
    five_window_many,
    multi_scale_many,
)
from pqdetect.features.stream import HISTORY_WINDOWS, FeatureStream
from pqdetect.features.window import FEATURE_NAMES, SCHEMA, features_many, window_features

__all__ = [
    "FEATURE_NAMES",
    "FIVE_WINDOW_NAMES",
    "HISTORY_WINDOWS",
    "MULTI_SCALE_NAMES",
    "SCHEMA",
    "FeatureStream",
    "features_many",
    "five_window_many",
    "multi_scale_many",
    "window_features",
]
