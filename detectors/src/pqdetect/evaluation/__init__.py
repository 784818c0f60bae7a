"""What the detectors are worth on recordings they were not made from, with trivial rules beside."""
