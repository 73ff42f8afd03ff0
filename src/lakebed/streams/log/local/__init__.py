"""The local part of a log: segment files, their sparse index, appends and recovery."""
