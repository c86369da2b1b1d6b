"""The engine of FIFO queues: order per message group, no duplicates (docs/storage.md, the log)."""
