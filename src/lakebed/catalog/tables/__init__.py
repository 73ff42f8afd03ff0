"""Tables, views and generic tables: create, register, import, rename, drop, restore and purge."""
