"""Object storage: the ObjectStorage interface, its implementations, and wrappers that each add one feature."""
