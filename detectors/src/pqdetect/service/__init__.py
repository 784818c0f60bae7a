"""The streaming service: an endpoint's feed in, one verdict a window out.

Reading order: feed (what an endpoint exports) → verdict (one line) → watcher (features, model, rule) → core
(all decisions, no clock, no file) → outputs, serve (the process around it).
"""
