"""One exception tree: every error has a stable `code` and a `hint` that says what to do next."""

from __future__ import annotations

from pqbase.errors import PqError


class DetectError(PqError):
    """Base of all errors of this package."""

    code = "detect"
    hint = "see `pqdetect --help` and docs/DETECTORS.md"


class UsageError(DetectError):
    """A command-line value that cannot be used."""

    code = "usage"
    hint = "see `pqdetect VERB --help`"


class FeedError(DetectError):
    """A feed or a `bins` stream that does not say what it should."""

    code = "feed"
    hint = "the feed comes from another version of the tunnel agent, or the file is damaged"


class FeatureError(DetectError):
    """Windows of the wrong shape or in the wrong order."""

    code = "features"
    hint = "windows go in by ascending number; a restarted feed needs FeatureStream.reset first"


class RecordingError(DetectError):
    """A recording that cannot be read, or whose truth contradicts its bins."""

    code = "recording"
    hint = "a recording is a folder with bins.ndjson and truth.json (docs/DETECTORS.md)"


class SimulationError(DetectError):
    """A scenario that cannot be simulated."""

    code = "simulation"
    hint = "kinds, profiles and splits are listed in detectors/src/pqdetect/simulate/splits.json"
