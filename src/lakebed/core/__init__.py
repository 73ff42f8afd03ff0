"""Values and decisions that everything else stands on. Nothing here does I/O."""
