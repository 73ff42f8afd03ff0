"""The transactional metadata store: its seam, SQLite and PostgreSQL behind it, and what is built on it alone."""
