"""Fast power sampling: up to 1 kHz, every sample in a raw file, gaps with reasons, means at 10 Hz."""
