"""Streams beside Apache Fluss: the same clients, the same rows, the same acknowledgements."""
