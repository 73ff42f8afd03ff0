"""The stream server process: composition and metrics loop."""
