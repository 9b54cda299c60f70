"""The command line: thin commands over the bus and the stack; decides nothing itself."""
