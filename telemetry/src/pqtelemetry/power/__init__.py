"""Fast power sampling: up to 1 kHz on a schedule, every sample in a raw file, gaps with reasons, 10 Hz means."""
