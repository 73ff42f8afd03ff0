"""The calls by what they are about: each turns a message into a use case, and what came of it into a message."""
