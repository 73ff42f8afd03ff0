"""Values and decisions that all packages share, without I/O."""
