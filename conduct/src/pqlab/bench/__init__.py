"""Results of `pqtunnel bench` as a bundle: tables, page, checks. Format: docs/BUNDLE.md, "A bench bundle".

Reading order: tree (raw performance files), energy (blocks and power samples), board (a serial log),
published (the third column), tables (CSV), the pages' sections, bundle (writing and checking it).
"""
