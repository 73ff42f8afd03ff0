"""The transactional metadata store: its interface, SQLite, PostgreSQL, migrations, outbox, leases and task queue."""
