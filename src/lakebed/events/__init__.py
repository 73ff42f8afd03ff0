"""What happened, for those who are told of it."""
