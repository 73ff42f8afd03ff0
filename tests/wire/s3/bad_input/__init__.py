"""Invalid input over a real socket: each gets the right S3 error, logs no failure, and stores nothing."""
