"""S3 in depth, through boto3 and through requests made by hand."""
