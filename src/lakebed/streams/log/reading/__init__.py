"""Reading a log: filters, projections and the log format that a reader requests."""
