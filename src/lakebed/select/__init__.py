"""S3 Select: SQL over objects, tables and streams, executed on DataFusion and returned as a stream.

`service` opens the object like a GET: with the same permission, and one version until the end. All objects under a
prefix are listed and opened by `sources.prefix_objects`. `dialect` parses and binds the statement, `formats` opens the
object and reads its first block, and `execution.engine` builds one DataFusion query from both, or reuses the plan of an
equal query over the same columns (`execution.plan_cache`). Errors found by then, or within the first second, are
ordinary error responses. `execution.scanning` reads blocks on a few threads; a C library scans JSON lines if it was
built. `output` formats results one batch ahead of the reader. Closing the response stops the query at its next block.
"""
