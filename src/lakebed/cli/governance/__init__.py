"""Commands for users, access keys, policies, labels, token keys and the trace of delegated access."""
