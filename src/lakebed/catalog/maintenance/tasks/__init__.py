"""Maintenance tasks: submitted, leased by workers, completed or failed, and remembered by table."""
