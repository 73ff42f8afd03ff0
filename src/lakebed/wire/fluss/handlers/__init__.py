"""Handlers of calls, by topic: they decode the request, call a service, and encode the result."""
