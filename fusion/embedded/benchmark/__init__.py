"""Benchmarks of fused operators in NumPy, laid out as FlagGems lays out its own."""
