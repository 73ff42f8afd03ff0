"""Authorization in the catalog: catalog privileges, S3 requests to table buckets, data access, filtered listings."""
