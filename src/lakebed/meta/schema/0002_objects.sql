-- Buckets, objects, versions and multipart uploads. See docs/adr/0006-object-rows.md.

CREATE TABLE buckets (
    id          {serial},
    name        {text}   NOT NULL UNIQUE,
    owner       {text}   NOT NULL,
    region      {text}   NOT NULL,
    created_ms  {bigint} NOT NULL,
    versioning  {text}   NOT NULL,
    settings    {blob}   NOT NULL
);

CREATE INDEX buckets_by_owner ON buckets (owner, name);

-- The current version of each key, delete markers left out: what GET, HEAD and LIST read.
CREATE TABLE objects (
    bucket      {bigint} NOT NULL,
    key         {text}   NOT NULL,
    rank        {bigint} NOT NULL,
    version     {text}   NOT NULL,
    size        {bigint} NOT NULL,
    etag        {text}   NOT NULL,
    modified_ms {bigint} NOT NULL,
    checksum    {text}   NOT NULL,
    content     {bigint},
    attributes  {blob}   NOT NULL,
    PRIMARY KEY (bucket, key)
) {clustered};

-- Versions that are not current, and delete markers (a current marker too). The newest has the lowest rank.
CREATE TABLE versions (
    bucket        {bigint} NOT NULL,
    key           {text}   NOT NULL,
    rank          {bigint} NOT NULL,
    version       {text}   NOT NULL,
    size          {bigint} NOT NULL,
    etag          {text}   NOT NULL,
    modified_ms   {bigint} NOT NULL,
    checksum      {text}   NOT NULL,
    content       {bigint},
    attributes    {blob}   NOT NULL,
    is_marker     {bigint} NOT NULL,
    PRIMARY KEY (bucket, key, rank)
) {clustered};

CREATE UNIQUE INDEX versions_by_id ON versions (bucket, key, version);

-- The bytes of objects: small ones here, large ones as a layout of pieces in the byte store. Copies share a row.
CREATE TABLE contents (
    id      {serial},
    refs    {bigint} NOT NULL,
    body    {blob},
    seal    {blob},
    layout  {blob}
);

-- Every blob of the byte store that something refers to. A stored blob without a row is an orphan.
CREATE TABLE blobs (
    id {text} NOT NULL PRIMARY KEY
) {clustered};

-- Blobs nothing refers to any more, to be removed from the byte store.
CREATE TABLE garbage (
    id     {text}   NOT NULL PRIMARY KEY,
    due_ms {bigint} NOT NULL
) {clustered};

CREATE INDEX garbage_by_due ON garbage (due_ms);

CREATE TABLE uploads (
    id          {text}   NOT NULL PRIMARY KEY,
    bucket      {bigint} NOT NULL,
    key         {text}   NOT NULL,
    started_ms  {bigint} NOT NULL,
    attributes  {blob}   NOT NULL,
    -- Kept for a while after completion, so that a repeated Complete gets its answer again.
    finished_ms {bigint},
    result      {blob}
) {clustered};

CREATE INDEX uploads_by_key ON uploads (bucket, key, id);
CREATE INDEX uploads_by_finish ON uploads (finished_ms);

CREATE TABLE parts (
    upload      {text}   NOT NULL,
    number      {bigint} NOT NULL,
    size        {bigint} NOT NULL,
    etag        {text}   NOT NULL,
    modified_ms {bigint} NOT NULL,
    checksum    {text}   NOT NULL,
    piece       {blob}   NOT NULL,
    PRIMARY KEY (upload, number)
) {clustered};
