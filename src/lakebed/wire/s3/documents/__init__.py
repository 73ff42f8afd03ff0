"""The documents of S3, one module a family: `read_…` makes a value of a request's body, `write_…` an answer's body.

Readers raise MalformedDocument for what breaks the schema; the values they make raise their own errors for what the
schema allows and S3 does not. Writers take plain values and do no checking: what they are given is valid.
"""
