"""SelectObjectContent on the wire: the document that asks, the messages that answer."""
