"""What the stack says when it can't do its work."""


class StackError(Exception):
    """One clear sentence for the person who started the stack."""
