"""The engine of streams: a log for each shard, which any number of readers read."""
