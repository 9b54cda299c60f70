"""Sockets of caches: keeps their directories, proves that somebody answers in them, and says every change."""
