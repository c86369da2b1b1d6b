"""The cluster manager: the state machine that works beside requests (docs/architecture.md)."""
