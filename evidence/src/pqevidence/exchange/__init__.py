"""What a bundle holds, in the formats of other tools: telemetry logs, packet captures, test results."""
