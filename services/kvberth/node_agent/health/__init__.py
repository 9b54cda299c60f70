"""Health of caches: puts bytes in, takes them out again, and says every change of what that shows."""
