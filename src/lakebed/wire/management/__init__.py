"""The Polaris management API under `/api/management/v1`: catalogs, principals, roles and grants."""
