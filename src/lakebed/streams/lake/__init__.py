"""Lake tiering: which table is tiered next and by whom, and the tiered offsets of each."""
