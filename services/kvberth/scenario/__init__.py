"""Stories that run: what a user, the kernel or bad luck does to a whole kvberth, and what must then be true.

An edge tool like the command line: it drives a stack from outside and judges by what it finds there itself.
"""
