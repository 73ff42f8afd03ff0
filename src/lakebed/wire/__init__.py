"""The edges, one package a protocol: they translate and nothing else."""
