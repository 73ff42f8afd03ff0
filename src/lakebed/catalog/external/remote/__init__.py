"""The client for external Iceberg REST catalogs: addresses, authentication, requests, errors.

Federation and bridges share it.
"""
