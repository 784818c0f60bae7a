"""The forgeries, by theme: times, counts, places (cells, suites, order), claims (ring, versions), shape
(files)."""
