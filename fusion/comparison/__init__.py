"""Two sets of results side by side: differences, verdicts, and how they are written."""
