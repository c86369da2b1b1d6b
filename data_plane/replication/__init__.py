"""Replicated cells: the Cell port over the members of a placement group (docs/replication.md)."""
