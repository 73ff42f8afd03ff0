"""The folder backend: objects as files of a local folder (ADR 2)."""
