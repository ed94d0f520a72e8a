"""Tell how close each fused operator of FlagGems comes to what the machine can do."""

__version__ = "0.1.0"
