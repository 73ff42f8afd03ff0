"""What operators, orchestrators and workers ask: health and metrics of the server; tasks, events, health of tables."""
