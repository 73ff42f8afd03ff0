"""OAuth 2: the token endpoint, the server's public keys, and bearer tokens on requests."""
