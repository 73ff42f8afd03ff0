"""What it costs to know who may do what: decisions, policies, tokens, lists of what may be seen."""
