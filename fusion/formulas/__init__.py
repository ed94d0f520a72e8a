"""Say how much work one call of an operator is, from its arguments; know no machine and no run."""
