"""The lab's link model: a layer-3 router that treats TCP and UDP alike, and what measures it.

Reading order: settings (what one direction does to packets), channel (the fate of one packet), router (both
directions on one schedule), lease (settings that end by themselves), control (requests). Then the shells:
device (TUN and routes), serve (the router's process), side (the routes of one end), probe. Last, figures and
achieved: what was set against what was found.
"""

__version__ = "0.1.0"
