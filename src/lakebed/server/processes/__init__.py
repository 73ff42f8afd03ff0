"""The processes of a server: the supervisor, its children, restarts, hang detection, reload and shutdown.

The supervisor binds the ports, forks the children and passes HTTP connections to the workers. Roles: `lakebed-worker`
(HTTP), `lakebed-events` (event delivery), `lakebed-streams` (Fluss protocol, if `streams.listen` is set).
"""
