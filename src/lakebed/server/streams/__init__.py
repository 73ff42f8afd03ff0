"""Streams in the server: their composition, their process, and the adapters that they need."""
