"""One campaign on the pairs of an inventory, side by side: a controller process for each pair, in a results
folder of its own.

Reading order: folder (what was begun, what is still to do) → words (what a pair's controller is called
with) → children (its process) → screen (all of them, a line at a time) → status (the same for machines). Not
in scope: which hosts are a pair (`pqlab.pair_groups`), how a share is measured (`campaign`), merging
(`pqevidence.merge`).
"""
