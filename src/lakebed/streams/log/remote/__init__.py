"""The remote part of a log: segments in the object store, their manifest and uploaded tails."""
