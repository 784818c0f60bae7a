"""The embedded vehicle as a plain program beside `pqlink` on a drone, on the ground until somebody flies it.

python3 vehicle.py LOCAL PEER: ports of 127.0.0.1 that it hears at and sends to.
"""

import socket
import sys
import threading

from pqsitl.net import UdpLink
from pqsitl.sources import EmbeddedSource
from pqsitl.spec import TrafficSpec


class Port(UdpLink):
    """The link's peer at a port of its own, where the answers of the other end come."""

    def __init__(self, local: tuple[str, int], peer: tuple[str, int]) -> None:
        self.peer, self._refused_count = peer, 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind(local)
        self.socket.connect(peer)


local, peer = (("127.0.0.1", int(word)) for word in sys.argv[1:])
link = Port(local, peer)
EmbeddedSource(link, TrafficSpec(source="embedded", rate_hz=50.0), airborne=False).start()
threading.Event().wait()
