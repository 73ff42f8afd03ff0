"""The demo: starts a server in a folder of its own and uses it end to end with real clients."""
