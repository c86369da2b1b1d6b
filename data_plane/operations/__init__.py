"""The message operations: one file for an action and its batch."""
