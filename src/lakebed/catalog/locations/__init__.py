"""Locations of tables: which directories a table claims, and the rule that keeps claims apart."""
