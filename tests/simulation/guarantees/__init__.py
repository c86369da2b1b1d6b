"""Universes of queues that promise something else than at least once (docs/promises.md)."""
