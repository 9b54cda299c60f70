"""Other stores of KV blocks, measured beside ours: one driver for each, run by the Python that has it installed."""
