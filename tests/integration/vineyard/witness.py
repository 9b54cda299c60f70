"""The official Vineyard client as an independent witness; a program, because it may freeze the interpreter it is in.

`witness.py SOCKET put HEX` prints the id of a new sealed blob, `witness.py SOCKET get ID` its bytes in hex.
"""

import sys

import vineyard


def main(socket: str, action: str, value: str) -> None:
    client = vineyard.connect(socket)
    if action == "put":
        data = bytes.fromhex(value)
        builder = client.create_blob(len(data))
        builder.copy(0, data)
        print(int(builder.seal(client).id))
    else:
        blob = client.get_blob(vineyard.ObjectID(int(value)))
        print("missing" if blob is None else bytes(memoryview(blob)).hex())


if __name__ == "__main__":
    main(*sys.argv[1:])
