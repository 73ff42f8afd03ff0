"""Stream tables in Spark: the data source, lake tiering and union reads.

A union read: `union_read` gets the published lake snapshot with its offsets, checks that the Iceberg table still has
it (`tiering_offsets`), and gets the offsets of the logs. `union_plan` decides which lake files, log ranges and KV scans
make one consistent view. Parts run as Spark tasks (`source`), or in the Select engine for `lakebed select`.
`union_overlay` removes changed rows of KV tables and adds their current versions.
"""
