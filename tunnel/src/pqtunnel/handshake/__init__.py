"""What the endpoint knows of a handshake: identities, limits, what it leaves behind. The handshake itself is
native (`pq_core`); its specification is `pqspec.handshake`."""
