"""The DynamoDB cell: one table, single-item writes, every promise of the Cell port."""
