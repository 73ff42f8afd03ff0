"""When each job is worth running on a table, and what policies and options require of it. Pure."""
