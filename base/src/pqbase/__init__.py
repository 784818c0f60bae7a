"""What every package stands on: standard library alone, Python 3.11 and newer, Linux and Windows."""
