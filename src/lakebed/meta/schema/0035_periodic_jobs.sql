-- When each periodic job last ended, so that its interval outlasts restarts. One row per job; all servers share it.

CREATE TABLE periodic_jobs (
    name     {text}   NOT NULL PRIMARY KEY,
    ended_ms {bigint} NOT NULL,
    failed   {bigint} NOT NULL
) {clustered};

-- Earlier releases held these for as long as the interval, up to an hour after the server ended.
UPDATE leases SET holder = '', expires_ms = 0 WHERE name IN (
    'sweep', 'lifecycle', 'outbox', 'bridges', 'dropped tables', 'old answers', 'table maintenance', 'token keys'
);
