"""Commits: requirements, updates, validation and the transaction that moves metadata pointers.

`service` resolves the names in one statement, loads the metadata (`metadata_cache`), checks the requirements and builds
the new document (`iceberg.commits`). Commits to one table take its lock within a worker (`table_locks`), and retries
after a conflict are paced (`conflict_backoff`). `catalog.validation` reads only what the commit adds. The document is
ingested like an object; history that is stored already is shared with the previous file (`shared_history`). One
transaction (`publishing`) moves the pointers from the versions that were read, confirms that validated files are
unchanged, publishes the metadata file, and writes the commit log, the idempotency key's response and the events. A
moved pointer or changed file repeats the commit; a conflict is reported only if nothing was committed.
"""
