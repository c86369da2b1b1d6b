"""Blob stores for bodies that are too big for a cell's items: a directory, or S3."""
