-- Users, their policies and their access keys. Root is not here: it comes from the settings.

CREATE TABLE principals (
    name       {text}   NOT NULL PRIMARY KEY,
    -- Never given out twice, unlike the name.
    user_id    {text}   NOT NULL UNIQUE,
    account    {text}   NOT NULL,
    enabled    {bigint} NOT NULL,
    created_ms {bigint} NOT NULL
) {clustered};

-- kind is 'inline', with a document, or 'canned', which names one that the build brings.
CREATE TABLE principal_policies (
    principal {text} NOT NULL,
    kind      {text} NOT NULL,
    name      {text} NOT NULL,
    document  {blob},
    PRIMARY KEY (principal, kind, name)
) {clustered};

CREATE TABLE access_keys (
    id         {text}   NOT NULL PRIMARY KEY,
    principal  {text}   NOT NULL,
    -- Sealed by the vault: signatures need it back, so it cannot be a hash.
    secret     {blob}   NOT NULL,
    enabled    {bigint} NOT NULL,
    created_ms {bigint} NOT NULL,
    rotated_ms {bigint} NOT NULL,
    expires_ms {bigint}
) {clustered};

CREATE INDEX access_keys_by_principal ON access_keys (principal, id);
