"""Run inside the audit's child: needs torch, Triton, NumPy and SciPy."""
