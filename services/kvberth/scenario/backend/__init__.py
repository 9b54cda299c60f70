"""Where a scenario runs: one small protocol, and an implementation per backend."""
