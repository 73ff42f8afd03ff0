"""Client conformance: runs a real client against a catalog, and prints what is claimed with the tests that show it."""
