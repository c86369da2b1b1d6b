"""The control plane: what queues there are, and what may be done to them."""
