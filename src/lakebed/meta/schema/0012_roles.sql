-- Roles and grants: who may do what to catalogs and what is in them. See docs/adr/0016-grants-in-the-one-authorizer.md.

-- What the management API keeps of a user. Where properties is NULL there are none, here and below.
ALTER TABLE principals ADD COLUMN properties {blob};
ALTER TABLE principals ADD COLUMN version {bigint} NOT NULL DEFAULT 1;
ALTER TABLE principals ADD COLUMN updated_ms {bigint} NOT NULL DEFAULT 0;
UPDATE principals SET updated_ms = created_ms;

CREATE TABLE principal_roles (
    id         {serial},
    name       {text}   NOT NULL UNIQUE,
    -- Whether a provider of identities says who has it, and nobody here.
    federated  {bigint} NOT NULL,
    properties {blob},
    version    {bigint} NOT NULL,
    created_ms {bigint} NOT NULL,
    updated_ms {bigint} NOT NULL
);

CREATE TABLE catalog_roles (
    id         {serial},
    catalog    {bigint} NOT NULL REFERENCES warehouses (bucket) ON DELETE CASCADE,
    name       {text}   NOT NULL,
    properties {blob},
    version    {bigint} NOT NULL,
    created_ms {bigint} NOT NULL,
    updated_ms {bigint} NOT NULL
);

CREATE UNIQUE INDEX catalog_roles_by_name ON catalog_roles (catalog, name);

-- Users by name, as their keys and policies are, and root, which is in no table.
CREATE TABLE principal_role_members (
    principal {text}   NOT NULL,
    role      {bigint} NOT NULL REFERENCES principal_roles (id) ON DELETE CASCADE,
    PRIMARY KEY (principal, role)
) {clustered};

CREATE INDEX principal_role_members_by_role ON principal_role_members (role, principal);

CREATE TABLE catalog_role_members (
    principal_role {bigint} NOT NULL REFERENCES principal_roles (id) ON DELETE CASCADE,
    catalog_role   {bigint} NOT NULL REFERENCES catalog_roles (id) ON DELETE CASCADE,
    PRIMARY KEY (principal_role, catalog_role)
) {clustered};

CREATE INDEX catalog_role_members_by_catalog_role ON catalog_role_members (catalog_role, principal_role);

-- Privileges on the service as a whole, which principal roles hold. Numbers are in governance/rbac/privileges.py.
CREATE TABLE service_grants (
    role      {bigint} NOT NULL REFERENCES principal_roles (id) ON DELETE CASCADE,
    privilege {bigint} NOT NULL,
    PRIMARY KEY (role, privilege)
) {clustered};

-- Privileges in a catalog, which its roles hold. securable says on what in one word, for lookups; namespace, entry or
-- policy say it to the store, which removes the row with them, or none does: then it is the catalog of the role.
CREATE TABLE grants (
    role       {bigint} NOT NULL REFERENCES catalog_roles (id) ON DELETE CASCADE,
    securable  {text}   NOT NULL,
    privilege  {bigint} NOT NULL,
    namespace  {bigint} REFERENCES namespaces (id) ON DELETE CASCADE,
    entry      {text}   REFERENCES entries (id) ON DELETE CASCADE,
    policy     {bigint} REFERENCES policies (id) ON DELETE CASCADE,
    granted_ms {bigint} NOT NULL,
    PRIMARY KEY (role, securable, privilege)
);

CREATE INDEX grants_by_namespace ON grants (namespace);
CREATE INDEX grants_by_entry ON grants (entry);
CREATE INDEX grants_by_policy ON grants (policy);

-- One row: counts the changes of roles and grants. What was made of them is good for as long as the number stays.
CREATE TABLE role_changes (
    id     {bigint} NOT NULL PRIMARY KEY,
    number {bigint} NOT NULL
);

INSERT INTO role_changes (id, number) VALUES (1, 1);

-- Root's role, and the administrators of the catalogs that are here already (rbac/bootstrap.py has those of new ones):
-- 1 is SERVICE_MANAGE_ACCESS, 2 CATALOG_MANAGE_ACCESS, 31 CATALOG_MANAGE_METADATA.
INSERT INTO principal_roles (name, federated, version, created_ms, updated_ms)
    VALUES ('service_admin', 0, 1, {now_ms}, {now_ms});
INSERT INTO service_grants (role, privilege) SELECT id, 1 FROM principal_roles;
INSERT INTO principal_role_members (principal, role) SELECT 'root', id FROM principal_roles;
INSERT INTO catalog_roles (catalog, name, version, created_ms, updated_ms)
    SELECT bucket, 'catalog_admin', 1, enabled_ms, enabled_ms FROM warehouses ORDER BY bucket;
INSERT INTO grants (role, securable, privilege, granted_ms)
    SELECT id, 'catalog ' || catalog, 2, created_ms FROM catalog_roles;
INSERT INTO grants (role, securable, privilege, granted_ms)
    SELECT id, 'catalog ' || catalog, 31, created_ms FROM catalog_roles;
INSERT INTO catalog_role_members (principal_role, catalog_role)
    SELECT p.id, c.id FROM principal_roles p CROSS JOIN catalog_roles c;
