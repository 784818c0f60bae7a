"""`make bench`: the tunnel beside its peers, in one run, in two network namespaces of its own."""
