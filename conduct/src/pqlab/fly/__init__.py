"""An open-ended session on the running container lab: a ground station flies the vehicle through the tunnel.

Nothing here measures. What a session leaves is a folder marked *flown, not measured*, which no reader of
bundles takes.
"""
