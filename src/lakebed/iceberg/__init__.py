"""Rules of the Iceberg specification, without I/O: for the server, the client and the pipeline alike."""
