"""Upkeep of tables by policy: which policies hold for a table, how the table is, and what is to be done about it.

`policies`, `policy_types` and `attaching` bind policies to the names of the catalog; `applicable` says which hold
where.

`health`, `triggers` and `planning` decide, without I/O, what a table needs; `planner` reads what they need, and
`scheduler` runs it on commits and on a timer. `orders` and `tasks` are the queue that the pipeline works off.
"""
