"""The AWS policy language: documents, statements, conditions, wildcards, actions and their validation."""
