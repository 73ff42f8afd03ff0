"""A bounded reader of Avro files, for manifest lists and manifests that clients wrote (ADR 53)."""
