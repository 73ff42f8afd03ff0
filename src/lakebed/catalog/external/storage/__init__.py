"""Catalogs over external object stores: storage profiles, metadata files, credential vending.

The server reads and writes only metadata there; engines read and write data directly, with credentials of the store
that are limited to one table (ADR 56).
"""
