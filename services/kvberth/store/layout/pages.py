"""Where the words stand that a client and the worker tell each other, in 8-byte words from the start of their pages.

A client's page is written by that client, its mirror by the worker. Pages begin as zeros. Both are cut up in
docs/store.md: head words, commit ring and leases there, head words, grant ring and receipt ring here.
"""

# --- a client's page: its own words -----------------------------------------------------------------------------------

ADMITTED, QUEUED, LEASED, COMMIT_TAIL, RECEIPT_HEAD, QUOTA_SEEN, SLEEPS = range(7)
"""Blocks ever offered; bytes that wait for a slot; bytes leased; ring positions; number of the quota that is obeyed;
what the client waits for a byte on its socket for (0: nothing)."""
HEARS_RECEIPTS, HEARS_GRANTS = 1, 2
"""Bits of SLEEPS."""
OUTCOMES = 32
"""One counter for each outcome, at its own number: what became of the blocks that this client offered."""
OUTCOME_WORDS = 32

# --- its mirror: the worker's words -----------------------------------------------------------------------------------

(
    SESSION, COMMIT_HEAD, GRANT_TAIL, RECEIPT_TAIL, QUOTA, QUEUE_BYTES, GRANT_BYTES, LEASE_BYTES, FULL, MOST_QUEUED,
) = range(10)  # fmt: skip
"""The worker's session; ring positions; the quota's number (written last) and its three amounts; no slot to be had; the
most that may ever have waited by the quotas of this client's life."""

# --- the directory of clients: the worker's words, 128 bytes each -----------------------------------------------------

CLIENT_ID, CLIENT_KNOWN = 0, 15
"""The client's id (two words), and last whether the place is taken."""
