"""A witness that is not kvberth, for a pod on each node: prints when a daemon first answered a register request.

Run as ``python cluster_witness.py SOCKET``; needs nothing but Python. While a daemon lives its connection is kept, so
that nothing is asked; each line is the time (seconds since the epoch) and the instance id of a new life.
"""

import contextlib
import json
import socket
import struct
import sys
import time

LOOK_EVERY_S = 0.005
"""The most that a time may be late, beside the request itself."""
ANSWER_WITHIN_S = 0.5
REGISTER = {
    "type": "register_request",
    "version": "0.24.2",
    "store_type": "Normal",
    "session_id": 0,
    "username": "",
    "password": "",
    "support_rpc_compression": False,
}


def register(connection: socket.socket, path: str) -> object:
    """Ask a daemon; give its instance id. Raises OSError, ValueError, struct.error."""
    body = json.dumps(REGISTER).encode()
    connection.settimeout(ANSWER_WITHIN_S)
    connection.connect(path)
    connection.sendall(struct.pack("<Q", len(body)) + body)
    (size,) = struct.unpack("<Q", connection.recv(8, socket.MSG_WAITALL))
    answer = json.loads(connection.recv(size, socket.MSG_WAITALL))
    if answer.get("code", 0):
        raise OSError(answer)
    return answer.get("instance_id")


def main() -> None:
    """Watch for ever."""
    path = sys.argv[1]
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            try:
                instance = register(connection, path)
            except (OSError, ValueError, struct.error):
                time.sleep(LOOK_EVERY_S)
                continue
            sys.stdout.write(f"{time.time()!r} {instance}\n")
            sys.stdout.flush()
            connection.settimeout(None)
            with contextlib.suppress(OSError):
                connection.recv(1)


if __name__ == "__main__":
    main()
