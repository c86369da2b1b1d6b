"""Where copies of queues lie: placements, cells and heartbeats in the registry, and their cache."""
