"""Prove formulas: run the real kernels in Triton's interpreter and count what they touch."""
