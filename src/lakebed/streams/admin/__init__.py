"""What administers streams: changes of tables, access, configs, and what producers and tiering leave with us."""
