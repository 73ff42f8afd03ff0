"""Which files of a table are reachable from its snapshots, and which may be removed."""
