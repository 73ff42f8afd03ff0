"""External catalogs (ADR 55): federation, bridges and notifications, over one client for Iceberg REST catalogs."""
