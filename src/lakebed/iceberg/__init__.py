"""The rules of the Iceberg specification, without I/O: schemas, transforms, metadata, commits, manifests, expressions.

The server, the client and the pipeline share this package.
"""
