"""What both engines store: segments, leases, counters, bodies apart (docs/storage.md)."""
