"""Fluss formats: types, schemas, rows, key encodings, record batches, bucket hashes and error codes.

Shared by the stream server, the wire and the client. No I/O.
"""
