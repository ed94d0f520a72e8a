"""Keep the small checkout's benchmarks from being collected as tests of the project."""

collect_ignore = ["checkout"]
