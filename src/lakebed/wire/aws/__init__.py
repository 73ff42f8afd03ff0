"""AWS protocol parts that S3 and the JSON APIs share: Signature Version 4, request addressing, errors."""
