"""Diagnoses tables from stored state, and repairs what can be derived.

One transaction moves a pointer and writes its commit record, so a crash leaves nothing to recover. Diagnosed problems
come from outside: a partly restored store, a file that was deleted in the storage backend, rows changed by hand.
"""
