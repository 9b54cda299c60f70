"""The start gate: `program` is what runs in front of an engine, `manifest` puts its text into the policy.

The program is never imported by a service; it is started as a file of its own, in an image that holds no kvberth.
"""
