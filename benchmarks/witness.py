"""A witness that is not kvberth: says when the official Vineyard client's register request on a socket was answered.

A process of its own, since that client holds the interpreter lock while it waits. Reads one path a line, and answers
with a line: the time (seconds since 1970) and the daemon's deployment id, which no two lives share.
"""

import socket
import sys
import time

import vineyard

LOOK_EVERY_S = 0.002
"""The most that a time may be late, beside the request itself."""


def main() -> None:
    """Answer until standard input ends."""
    for line in sys.stdin:
        path = line.rstrip("\n")
        while not _accepts(path):
            time.sleep(LOOK_EVERY_S)
        client = vineyard.connect(path)  # type: ignore[no-untyped-call] # the official client has no types
        answered = time.time()
        sys.stdout.write(f"{answered!r} {client.ipc_client.status.deployment}\n")
        sys.stdout.flush()
        client.close()


def _accepts(path: str) -> bool:
    # Where nobody listens the official client would sleep for a second.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
        try:
            attempt.connect(path)
        except OSError:
            return False
        return True


if __name__ == "__main__":
    main()
