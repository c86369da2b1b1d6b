"""Exports of cells, in the layout of DynamoDB's exports to S3 (docs/audit.md)."""
