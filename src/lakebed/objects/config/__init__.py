"""Settings of buckets and objects: immutable values that are validated on construction, and pure functions on them.

Values can be stored as JSON or MessagePack by msgspec. An `InvalidInput` with an `argument` is about that one value;
without one, it is about a combination of values.
"""
