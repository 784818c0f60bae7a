"""One module a verb; found by listing this folder (see `pqdetect.cli`)."""
