"""The KV index: the latest value of every key, in RocksDB with a write buffer."""
