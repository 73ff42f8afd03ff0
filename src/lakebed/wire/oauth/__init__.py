"""OAuth 2: the token endpoint and the server's public keys."""
