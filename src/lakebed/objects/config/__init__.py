"""Settings of buckets and objects: frozen values that are valid once they exist, and the decisions they lead to.

Nothing here reads, writes or knows the time by itself. Every value can be kept as JSON or MessagePack by msgspec. An
`InvalidInput` that names its `argument` is about that one value; one that names none is about values that do not go
together.
"""
