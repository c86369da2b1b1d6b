"""Usage records: what was served, for bills and audits (docs/usage.md)."""
