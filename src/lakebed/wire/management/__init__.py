"""Users, roles and grants, as Apache Polaris has them on the wire: `/api/management/v1`. In the catalog's frame."""
