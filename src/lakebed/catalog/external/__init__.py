"""External catalogs: federation, bridges and notifications, over one client for Iceberg REST catalogs."""
