"""Live events: the feed of new events, its filters, and read events that only live subscribers get."""
