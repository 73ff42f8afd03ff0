"""S3 resources as services: buckets, objects, versions, multipart uploads, and their settings.

A PUT: `writing` authorizes before the body is read. `blobs.ingest` hashes the body while it arrives; small bodies stay
in memory, large ones go to a blob with a unique name and are synced. They arrive in page-aligned buffers
(`core.buffers`), are hashed together with other bodies (`blobs.md5`) and bypass the page cache. Digests, checksums and
trailers are verified before anything references the bytes. One transaction (`publishing`) evaluates the conditions
against the current version, makes the new one current and appends the event. `blobs.garbage_collection` deletes the
replaced blob later. A crash before the transaction leaves an unreferenced blob, which `blobs.orphan_sweep` deletes
after a safety window; a crash after it loses nothing.

A GET: one statement reads bucket, object and blob (`rows`). Small bodies come from the row, files through `sendfile`,
encrypted or remote ones as a stream whose first bytes are read before the response head is sent. Nothing is cached
between requests that another process could change.
"""
