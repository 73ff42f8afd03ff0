"""`lakebed streams`."""
