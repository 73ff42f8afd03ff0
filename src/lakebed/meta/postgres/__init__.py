"""The metadata store on PostgreSQL."""
