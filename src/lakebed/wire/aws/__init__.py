"""What S3 and the JSON APIs share of AWS: Signature Version 4, request addresses and the form of errors."""
