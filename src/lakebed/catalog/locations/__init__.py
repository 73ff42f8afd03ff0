"""Locations of tables: the directories that a table claims, and the rule that keeps claims apart."""
