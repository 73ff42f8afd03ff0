"""The admin API for operators, orchestrators and workers, and the endpoints for health and metrics."""
