"""Bridges: links from tables to tables of external catalogs, synced on request or by polling.

A sync never discards commits made here since the last one. Then the pointer stays, the conflict is recorded, and an
operator decides.
"""
