"""Access delegation: credential vending, remote signing, and the trace of both."""
