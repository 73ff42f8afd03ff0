"""Events in the server: targets, hooks, the live feed, the request log, and the process that delivers events."""
