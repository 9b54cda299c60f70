"""Processes that outlive whoever started them: a record and a lock each, how they are started, found and ended.

A library of the bare backend: it knows neither services nor roles, only records and what the kernel says.
"""
