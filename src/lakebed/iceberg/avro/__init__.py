"""A bounded reader of Avro files, for manifest lists and manifests written by clients (ADR 53)."""
