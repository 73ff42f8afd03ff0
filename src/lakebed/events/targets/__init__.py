"""Event targets: one module per type of server, behind one interface."""
