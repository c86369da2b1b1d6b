"""What is allowed: attributes, names and lifecycles of queues, and their stored definitions."""
