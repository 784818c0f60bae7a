"""Many bundles of one campaign as one: what may be merged, the lineage file, tables, the page, the folder.

Reading order: rules (refusals), document (merge.json), page, compose (folder → sealed bundle).
"""
