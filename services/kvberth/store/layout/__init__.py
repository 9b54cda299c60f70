"""The bytes of the store in shared memory: where each word lies and what it may hold. Pure: no I/O, no clock."""
