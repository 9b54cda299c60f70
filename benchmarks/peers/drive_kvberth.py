"""Ours: `drive_kvberth.py DIRECTORY` uses the cache there by `kvberth.client`."""

import sys
import time
import uuid

from driver import BLOCKS, TOKENS, Array, Memory, serve

from kvberth.client import Client, Outcome, chain

LIMIT_S = 30.0


class Ours:
    """Keys are those of the client's own chain, over a block's tokens and all before."""

    def __init__(self, memory: Memory) -> None:
        self._client = Client(sys.argv[1], [memory.both], {"bench": uuid.uuid4().hex})
        if not self._client.wait_connected(LIMIT_S):
            raise TimeoutError(f"there is no cache: {self._client.why}")
        time.sleep(2.0)  # the arenas are mapped page by page while the client is idle

    def put(self, tokens: Array, first: int, last: int) -> None:
        ticket = self._client.offload(_keys(tokens, first, last), range(first, last))
        if not ticket.wait(LIMIT_S) or set(ticket.outcomes) != {Outcome.STORED}:
            raise RuntimeError(f"not every block was stored: {ticket.outcomes}")

    def get(self, tokens: Array, first: int, last: int) -> None:
        keys, at, until = _keys(tokens, first, last), 0, time.monotonic() + LIMIT_S
        while at < len(keys):  # a lookup ends after 2 ms
            found = self._client.lookup(keys[at:])
            begin = BLOCKS + first + at
            loaded = self._client.load(found, range(begin, begin + len(found)))
            self._client.release(found)
            if loaded != len(found) or time.monotonic() > until:
                raise RuntimeError(f"{loaded} of {len(found)} blocks were loaded")
            at += loaded

    def forget(self, _tokens: Array, /) -> None:
        """The least recently used ones go by themselves."""

    def close(self) -> None:
        self._client.close()


def _keys(tokens: Array, first: int, last: int) -> list[bytes]:
    return chain(tokens[: last * TOKENS].tolist(), TOKENS)[first:]


serve(Ours)
