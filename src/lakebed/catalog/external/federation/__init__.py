"""Catalogs that are backed by another Iceberg REST catalog (ADR 24).

What is in them is the other catalog's, and so is every answer; who may ask for it is decided here, before it is asked.
"""
