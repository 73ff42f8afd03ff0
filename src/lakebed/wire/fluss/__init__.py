"""The edge that clients of Apache Fluss speak to: frames of protobuf messages over TCP."""
