-- What governance keeps of things: versions of policies, generic tables, and labels on whatever has a name.
-- See docs/adr/0021-generic-tables-and-labels.md.

-- What a policy said at each of its versions, the present one among them, and who said it. Of policies from before this
-- there is the present version alone, and nobody wrote down whose it is.
CREATE TABLE policy_versions (
    policy      {bigint} NOT NULL REFERENCES policies (id) ON DELETE CASCADE,
    version     {bigint} NOT NULL,
    description {text},
    content     {blob}   NOT NULL,
    principal   {text}   NOT NULL,
    created_ms  {bigint} NOT NULL,
    PRIMARY KEY (policy, version)
) {clustered};

INSERT INTO policy_versions (policy, version, description, content, principal, created_ms)
    SELECT id, version, description, content, '', updated_ms FROM policies ORDER BY id;

-- What is known of a table of another format. Its name, its identity and its directory are those of an entry.
CREATE TABLE generic_tables (
    entry      {text} NOT NULL PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE,
    format     {text} NOT NULL,
    doc        {text},
    properties {blob} NOT NULL
);

-- What has tags or an owner. subject says it in one word, for lookups; one of the columns behind it says it to the
-- store, which removes the row with that. An owner that goes leaves what it owned without one; root is in no table.
CREATE TABLE labelled (
    subject         {text}   NOT NULL PRIMARY KEY,
    kind            {text}   NOT NULL,
    catalog         {bigint} REFERENCES warehouses (id) ON DELETE CASCADE,
    namespace       {bigint} REFERENCES namespaces (id) ON DELETE CASCADE,
    entry           {text}   REFERENCES entries (id) ON DELETE CASCADE,
    policy          {bigint} REFERENCES policies (id) ON DELETE CASCADE,
    catalog_role    {bigint} REFERENCES catalog_roles (id) ON DELETE CASCADE,
    principal       {text}   REFERENCES principals (user_id) ON DELETE CASCADE,
    principal_role  {bigint} REFERENCES principal_roles (id) ON DELETE CASCADE,
    owner_principal {text}   REFERENCES principals (user_id) ON DELETE SET NULL,
    owner_role      {bigint} REFERENCES principal_roles (id) ON DELETE SET NULL,
    owned_by_root   {bigint} NOT NULL
);

CREATE INDEX labelled_by_catalog ON labelled (catalog);
CREATE INDEX labelled_by_namespace ON labelled (namespace);
CREATE INDEX labelled_by_entry ON labelled (entry);
CREATE INDEX labelled_by_policy ON labelled (policy);
CREATE INDEX labelled_by_catalog_role ON labelled (catalog_role);
CREATE INDEX labelled_by_principal ON labelled (principal);
CREATE INDEX labelled_by_principal_role ON labelled (principal_role);
CREATE INDEX labelled_by_owner_principal ON labelled (owner_principal, subject);
CREATE INDEX labelled_by_owner_role ON labelled (owner_role, subject);

CREATE TABLE tags (
    subject {text} NOT NULL REFERENCES labelled (subject) ON DELETE CASCADE,
    key     {text} NOT NULL,
    value   {text} NOT NULL,
    PRIMARY KEY (subject, key)
) {clustered};

CREATE INDEX tags_by_value ON tags (key, value, subject);
