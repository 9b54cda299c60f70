"""The names, events and wants that kvberth speaks on the bus; imports nothing else of kvberth."""
