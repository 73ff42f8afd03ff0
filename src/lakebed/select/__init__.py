"""S3 Select: SQL over the bytes of one object, run by DataFusion and answered as a stream."""
