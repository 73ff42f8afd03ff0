-- What tokens are asked for with, signed with, and who comes with those of other providers. See docs/adr/0017-tokens.md.

-- Client credentials: one pair of a user, with its secret before the last rotation beside the present one.
CREATE TABLE client_credentials (
    client_id   {text}   NOT NULL PRIMARY KEY,
    user_id     {text}   NOT NULL UNIQUE REFERENCES principals (user_id) ON DELETE CASCADE,
    -- Argon2 in its own notation, salt and cost included.
    main        {text}   NOT NULL,
    secondary   {text},
    -- Counts the secrets there have been: that of main; secondary is the one before. Tokens carry the number of theirs.
    generation  {bigint} NOT NULL,
    created_ms  {bigint} NOT NULL,
    rotated_ms  {bigint} NOT NULL
);

-- The keys that the server signs tokens with. One of them signs; retired ones verify what they have signed.
CREATE TABLE token_keys (
    id          {text}   NOT NULL PRIMARY KEY,
    algorithm   {text}   NOT NULL,
    -- SubjectPublicKeyInfo in DER.
    public      {blob}   NOT NULL,
    -- PKCS 8 in DER, sealed by the vault; gone once the key is retired.
    private     {blob},
    created_ms  {bigint} NOT NULL,
    -- Until when it verifies, once it is retired.
    expires_ms  {bigint}
);

CREATE UNIQUE INDEX token_keys_signing ON token_keys (algorithm) WHERE private IS NOT NULL;

-- Users by what a provider of identities calls them. A user has one such identity at most, and it never changes hands.
CREATE TABLE external_identities (
    issuer      {text}   NOT NULL,
    subject     {text}   NOT NULL,
    user_id     {text}   NOT NULL UNIQUE REFERENCES principals (user_id) ON DELETE CASCADE,
    created_ms  {bigint} NOT NULL,
    PRIMARY KEY (issuer, subject)
);
