"""Health and metrics: what operators and orchestrators ask."""
