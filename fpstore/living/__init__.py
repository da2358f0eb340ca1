"""What changes: the catalog, its log, snapshots, and the one writer."""
