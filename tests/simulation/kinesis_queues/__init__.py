"""Universes of queues of the Kinesis API."""
