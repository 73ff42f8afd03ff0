"""`lakebed check storage`: tests an object store step by step and explains each failure."""
