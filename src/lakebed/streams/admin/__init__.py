"""Stream administration: ACLs, schema changes, cluster configs, health, failover, producer offsets and inventory."""
