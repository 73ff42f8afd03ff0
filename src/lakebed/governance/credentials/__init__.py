"""Credentials: access keys, temporary sessions, bearer tokens, logins, and the vault that seals secrets."""
