"""Tags and owners of securables: look up, authorize, change and search."""
