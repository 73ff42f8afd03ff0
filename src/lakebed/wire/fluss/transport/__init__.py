"""Transport of the Fluss protocol: connections, frames, SASL, backpressure and deadlines."""
