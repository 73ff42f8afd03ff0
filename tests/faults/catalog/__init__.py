"""The catalog under faults: killed at random points and at every step of a change, and written to by many."""
