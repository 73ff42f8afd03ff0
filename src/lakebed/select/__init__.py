"""S3 Select: SQL over objects, tables and streams, executed on DataFusion and returned as a stream.

`service` opens the object as a GET does: the same permission, and the same version to the end. `sources.prefix_objects`
lists and opens all objects under a prefix. `dialect` parses and binds the statement, `formats` opens the object and
reads its first block, `execution.engine` builds one DataFusion query of both, or reuses the plan of an equal query over
the same columns (`execution.plan_cache`). Errors found by then, or within the first second, are ordinary error
responses. `execution.scanning` reads blocks on a few threads; a C library scans JSON lines if it was built. `output`
formats batches one ahead of the reader. Closing the response stops the query at its next block.
"""
