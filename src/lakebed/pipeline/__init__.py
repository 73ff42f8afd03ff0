"""The work that Spark does for tables, through the public wires alone: it may run on any machine that reaches a server.

PySpark is an extra (`pip install 'lakebed[pipeline]'`) and is imported where a session is started, not before.
"""
