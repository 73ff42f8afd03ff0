"""The real server under faults: killed, out of space, restarted."""
