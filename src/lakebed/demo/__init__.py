"""The demo: starts a server in a new folder and uses it end to end with real clients."""
