"""JSON from clients: bounds, parsing off the event loop, and positions of syntax errors."""
