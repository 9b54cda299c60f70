"""One function per check: answered facts in, a finding out. Pure."""
