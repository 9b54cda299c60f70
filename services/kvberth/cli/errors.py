"""What a command says when it can't do its work."""


class CommandError(Exception):
    """One clear sentence for the person at the terminal; the command ends with exit status 1."""
