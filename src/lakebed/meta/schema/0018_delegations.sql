-- Keys and signatures that the catalog handed out for tables' files, and what was done with them. See docs/delegation.md.

-- One row for each pair of keys and for each signature, by the id of the key that signs.
CREATE TABLE delegations (
    seq         {serial},
    id          {text}   NOT NULL UNIQUE,
    -- `vended-credentials` or `remote-signing`.
    kind        {text}   NOT NULL,
    request_id  {text}   NOT NULL,
    principal   {text}   NOT NULL,
    user_id     {text}   NOT NULL,
    -- Of the caller, a role's session included; and the lasting key that all came from.
    arn         {text}   NOT NULL,
    lasting_key {text}   NOT NULL,
    remote      {text}   NOT NULL,
    catalog     {text}   NOT NULL,
    -- As policies write it: levels joined by dots, a dot in a level written %2E.
    namespace   {text}   NOT NULL,
    name        {text}   NOT NULL,
    table_id    {text}   NOT NULL,
    bucket      {text}   NOT NULL,
    -- JSON: a list of directories.
    directories {text}   NOT NULL,
    writes      {bigint} NOT NULL,
    -- Of a signature: the request that was signed.
    method      {text}   NOT NULL,
    target      {text}   NOT NULL,
    issued_ms   {bigint} NOT NULL,
    expires_ms  {bigint} NOT NULL
);

CREATE INDEX delegations_of_table ON delegations (catalog, namespace, name, seq);
CREATE INDEX delegations_of_principal ON delegations (principal, seq);
CREATE INDEX delegations_of_request ON delegations (request_id);

-- What S3 requests did with them, added up: one row for all requests of a kind for a key that came to the same.
CREATE TABLE delegated_accesses (
    bucket          {text}   NOT NULL,
    key             {text}   NOT NULL,
    delegation      {text}   NOT NULL,
    operation       {text}   NOT NULL,
    status          {bigint} NOT NULL,
    requests        {bigint} NOT NULL,
    received_bytes  {bigint} NOT NULL,
    sent_bytes      {bigint} NOT NULL,
    first_ms        {bigint} NOT NULL,
    last_ms         {bigint} NOT NULL,
    last_request_id {text}   NOT NULL,
    -- For whom, for what table and by which request the key was made, as its token has it.
    principal       {text}   NOT NULL,
    table_id        {text}   NOT NULL,
    obtained_by     {text}   NOT NULL,
    PRIMARY KEY (bucket, key, delegation, operation, status)
) {clustered};

CREATE INDEX delegated_accesses_of_one ON delegated_accesses (delegation, bucket, key, operation, status);
