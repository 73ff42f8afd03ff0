"""Stream servers: identity, registry, the leader and its lease, and the upload of a returned server's tail."""
