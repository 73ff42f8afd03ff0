"""Stream tables in Spark: the data source, lake tiering and union reads."""
