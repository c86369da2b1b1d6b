"""Benchmarks: what the server costs, measured with a load generator that is not the bottleneck."""
