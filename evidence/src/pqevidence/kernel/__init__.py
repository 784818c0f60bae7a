"""What every check stands on: the bundle as checks see it, what a check answers, and what a check is."""
