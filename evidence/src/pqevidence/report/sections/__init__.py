"""The parts of the report, one module a theme; each function takes a Source and returns a Section or None.

None means the run holds nothing to say there (no bulk ladder, no repetition), and the part is left out.
"""
