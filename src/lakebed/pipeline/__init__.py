"""Spark jobs on tables, over the server's public wires: they run on any machine that reaches a server.

PySpark is an extra (`pip install 'lakebed[pipeline]'`). It is imported only where a session starts.
"""
