"""What can be told of a table's health, from what is stored; and what of it can be put right.

One transaction moves a pointer and writes its record, so a crash leaves nothing to recover. What is looked for here
comes from outside: a store that was restored in part, a file that somebody removed below us, rows changed by hand.
"""
