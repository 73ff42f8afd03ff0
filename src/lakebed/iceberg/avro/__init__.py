"""A reader of Avro files within bounds, for manifest lists and manifests of other writers (ADR 53)."""
