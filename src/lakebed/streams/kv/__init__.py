"""Primary-key tables: the latest row of every key, over the changelog."""
