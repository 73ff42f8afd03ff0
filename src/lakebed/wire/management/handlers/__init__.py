"""One module a noun: each reads its request, asks the services, and writes the answer."""
