"""Commits: requirements, updates, validation and the transaction that moves metadata pointers."""
