"""Input formats: CSV, JSON, Parquet, Arrow and Avro as relations."""
