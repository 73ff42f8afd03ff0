"""S3's XML documents: `read_…` parses request bodies, `write_…` writes response bodies.

Readers raise MalformedDocument for schema violations, and the errors of the parsed values for what only S3 forbids.
Writers do not validate their input.
"""
