-- Lists of names are read from here alone: the rows themselves are large, and lie in the order in which they came.
CREATE INDEX entries_listed ON entries (namespace, kind, dropped_ms, name);
