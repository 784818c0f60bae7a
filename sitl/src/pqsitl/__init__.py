"""Traffic sources of the lab and the contract their traffic must keep.

In scope: what enters and leaves the plaintext side of the tunnel. Not in scope: anything sealed.
`pqsitl.contract`, `pqsitl.profile` and `pqsitl.bulk` use the standard library alone.
"""

__version__ = "0.1.0"
