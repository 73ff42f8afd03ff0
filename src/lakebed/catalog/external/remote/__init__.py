"""Another Iceberg REST catalog, spoken to: where it is, how this server shows who it is, what its refusals mean.

One way for all who need one: bridges that follow a table of it, and catalogs that are backed by it.
"""
