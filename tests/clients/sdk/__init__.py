"""S3 in depth, through boto3 and hand-built requests."""
