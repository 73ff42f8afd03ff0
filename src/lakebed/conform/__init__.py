"""Client conformance: runs a real client against a catalog, and prints claims with their tests."""
