"""Handlers by resource: they parse the request, call a service, and build the response."""
