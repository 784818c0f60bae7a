"""Places of a shared rack: one is held while a campaign runs, its boards are power-cycled through it.

`hold.py` is the campaign's side. `warden.py` is a program of its own that labgrid's environment runs: gRPC
and its threads stay out of the process that measures, and it outlives a controller that was killed.
"""
