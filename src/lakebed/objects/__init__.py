"""S3's nouns as services: buckets, objects, versions, multipart uploads, and what is set on them."""
