-- Contents that borrow: made of a few bytes of their own, and of ranges of a blob that another content keeps.
-- See docs/adr/0015-composed-metadata-files.md.

-- The content whose blob it reads. A share of that one: it is counted in its refs, and given back with this row.
ALTER TABLE contents ADD COLUMN lender {bigint};
