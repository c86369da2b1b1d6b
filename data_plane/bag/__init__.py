"""The engine of standard queues: best-effort order, at least once (docs/storage.md, "the bag")."""
