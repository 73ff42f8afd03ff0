"""`lakebed select`."""
