"""Fluss formats, without I/O: types, schemas, rows, key encodings, record batches, bucket hashes and error codes.

The stream server, the wire and the client share them. Nothing here knows a server.
"""
