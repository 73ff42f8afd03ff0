"""Bad input over a real socket: the right S3 error each, no traceback in the log, nothing stored."""
