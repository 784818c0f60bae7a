"""Readers: each is one sensor with a name, and gives samples or the reason why it has none."""
