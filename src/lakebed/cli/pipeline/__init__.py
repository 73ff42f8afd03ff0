"""`lakebed pipeline`, `lakebed shell` and `lakebed spark-config`."""
