"""`kvberth preflight`: whether a cluster can take the install of kvberth, asked before anything is written to it.

`gather` asks, `judge` decides from what was answered, `command` prints. Nothing here writes to the cluster.
"""
