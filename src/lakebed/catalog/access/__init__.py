"""Authorization in the catalog: permissions, S3 requests to table buckets, data access, filtered listings."""
