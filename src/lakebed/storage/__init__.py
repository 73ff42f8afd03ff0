"""Bytes: the ObjectStorage seam, where they can be kept, and wrappers that each add one idea."""
