"""The processes of a server: the supervisor, its children, and how they start, hang, restart and end."""
