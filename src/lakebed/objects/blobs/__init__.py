"""Blobs: object bytes on their way into and out of the object store, and the removal of unreferenced ones."""
