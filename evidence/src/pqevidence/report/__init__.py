"""What a page is made of: blocks, drawings, and how they are written. pqevidence.pages puts it together.

Reading order: source (what is read) → sections/ (what is said, as blocks) → html, markdown (how it is
written). figures draws on svg.
"""
