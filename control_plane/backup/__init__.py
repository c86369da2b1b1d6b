"""Backups of embedded cells, and restoring them (docs/operations.md, ADR 21)."""
