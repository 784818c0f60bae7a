"""Drivers start and stop what belongs to a cell on this host: today the traffic service, by TCP
(`compose`)."""
