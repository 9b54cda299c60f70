"""The runner of one bare node: starts and ends the processes that the bus wants there, and says what became of them."""
