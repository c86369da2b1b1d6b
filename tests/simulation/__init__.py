"""The deterministic simulator: the shipped modules under seeded faults, in virtual time."""
