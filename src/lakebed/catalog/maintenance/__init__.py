"""Table maintenance: what a table needs, the tasks that follow from it, and the maintenance jobs of table buckets.

`rules` decides when each job is worth running, by the policies and the health (`health`) of a table. `planner`
decides, without I/O, which tasks that makes; `table_planner` reads what it needs, and `scheduler` runs it on commits
and on a timer. `tasks` is the task queue as workers and operators use it.

`reachability` finds the files that no snapshot needs; `jobs` removes them, or moves them to quarantine, for the
S3-Tables-style maintenance routes. Data files are never read or rewritten here: that is the pipeline's work.
"""
