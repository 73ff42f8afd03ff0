"""The protocols: S3, Iceberg REST, Polaris, OAuth, Fluss and the admin API. They only translate to services."""
