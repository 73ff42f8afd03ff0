"""The Apache Fluss protocol: framed protobuf messages over TCP."""
