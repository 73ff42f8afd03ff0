"""The client of stream tables: logs, primary-key tables, partitions and lake tiering, over the Fluss protocol."""
