"""Streams: log tables and primary-key (KV) tables of Apache Fluss, on one leader.

An append: `buckets.open_buckets` opens the bucket with everything acknowledged on any server (`log.remote`). If only
the disk of another server has some of it, the response is LEADER_NOT_AVAILABLE until that server has uploaded it.
`log.offset_assignment` validates each batch, deduplicates it by writer and sequence, and assigns offsets, without
waiting, so batches keep their order. `log.local.folder_log` writes all waiting batches and syncs once; with
`ack_after_upload` they go to the object store before the response (`log.remote.tails`). Only then can they be read.
`log.offset_waiters` wakes waiting readers, which get ranges of whole batches as stored, unless filters or projections
require `log.reading`. `buckets.log_maintenance` uploads sealed segments once a minute, publishes the manifest under the
leader's lease and applies the retention. `lake` queues tiering tasks by the freshness of tables (ADR 35).

A failover: the leader does not renew its lease, and another server takes it with a greater epoch (`servers.leader`).
Followers redirect clients to the advertised address (ADR 46). With `ack_after_upload`, the default on PostgreSQL, the
object store has every acknowledged record. Without it, the log row names the server whose disk has the rest, and that
server uploads it when it returns (`servers.tail_upload`). `admin.failover` reports stranded buckets and gives up lost
servers (ADR 45).
"""
