"""Universes of queues with a dead-letter queue, and of tasks that move messages back."""
