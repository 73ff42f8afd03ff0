"""OAuth 2.0: the token endpoint and the public keys of the server."""
