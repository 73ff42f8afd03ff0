"""Tags and owners of everything that has a name: found by it, asked about at the gate, changed, and searched for."""
