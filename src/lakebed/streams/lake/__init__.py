"""Lake tiering: planning, assignment to tiering jobs, and tiered offsets."""
