-- Lists by who holds some of a namespace are read from here alone too: which they are is a matter of ids.
DROP INDEX entries_listed;
CREATE INDEX entries_listed ON entries (namespace, kind, dropped_ms, name, id);
