"""An adversary for the bundle format: it changes raw files, makes everything above them again, and asks what
`verify` says.

Reading order: raw (a bundle's raw files in a few lines of its own), rebuild (records, tables and pages by the
lab's builder, the bag by a few lines of its own), material (honest bundles to start from), forgeries (named
classes; the docstring of each says what a reader would be led to believe), run (all of them, and the table of
docs/WITNESSES.md). Nothing here uses the checks: what they look at, this kit does not know.
"""
