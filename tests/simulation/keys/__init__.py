"""Universes of queues whose messages are sealed under KMS keys, which are disabled at times."""
