"""What a socket that cannot be bound means to whoever set its port."""

from __future__ import annotations

import sys

from pqtunnel.errors import TunnelError


class PortTakenError(TunnelError):
    """A socket cannot be bound."""

    code = "port_taken"
    hint = (
        f"stop what holds the port (`{'netstat -ano' if sys.platform == 'win32' else 'ss -lnp'}`), "
        "or choose another by its PQ_*_PORT setting"
    )
