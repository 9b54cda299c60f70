"""vineyard-llm: its KVCache over blobs in a vineyardd of its own, which needs an etcd.

Its interface takes a pair of pointers for each token and layer; what is asked for comes back as pointers into shared
memory, so that the copy out of them is the engine's. It has nothing that deletes.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import vineyard
from driver import BLOCK, BLOCKS, LAYERS, TOKENS, Array, Memory, serve
from vineyard.llm import KVCache, KVTensor
from vineyard.llm.cache import VineyardCacheConfig

PIECE = BLOCK // (LAYERS * 2 * TOKENS)
"""Bytes of one token in one layer, keys or values."""
LIMIT_S = 20.0
ETCD_PORT, PEER_PORT = (int(port) for port in os.environ.get("PEER_ETCD_PORTS", "23791 23801").split())


class VineyardLlm:
    """One sequence of tokens for each round; put in parts, asked for as a whole, since parts can't be asked for."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._directory = Path(tempfile.mkdtemp(prefix="kvb-peer-", dir="/tmp"))
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            socket = self._start()
            config = VineyardCacheConfig(socket=str(socket), block_size=TOKENS, sync_interval=1_000_000)
            self._cache = KVCache(cache_config=config, tensor_nbytes=PIECE, cache_capacity=1 << 16, layer=LAYERS)
        except BaseException:
            self.close()
            raise

    def put(self, tokens: Array, first: int, last: int) -> None:
        words = [int(word) for word in tokens]
        for at in range(first, last):
            start = at * TOKENS
            done = self._cache.update(words[:start], words[start : start + TOKENS], self._pointers(at))
            if done != TOKENS:
                raise RuntimeError(f"{done} of {TOKENS} tokens were stored")

    def get(self, tokens: Array, first: int, last: int) -> None:
        if first == 0:
            words = [int(word) for word in tokens]
            self._found = [[(KVTensor(0, 0), KVTensor(0, 0)) for _ in range(LAYERS)] for _ in words]
            if self._cache.query([], words, self._found) != len(words):
                raise RuntimeError("not every token was found")
        target = self._memory.target.reshape(BLOCKS, LAYERS, 2, TOKENS, PIECE)
        for at in range(first, last):
            for token in range(TOKENS):
                for layer, (key, value) in enumerate(self._found[at * TOKENS + token]):
                    target[at, layer, 0, token] = np.frombuffer(key, np.uint8)
                    target[at, layer, 1, token] = np.frombuffer(value, np.uint8)

    def forget(self, _tokens: Array, /) -> None:
        self._found = []

    def close(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _pointers(self, block: int) -> list[list[tuple[KVTensor, KVTensor]]]:
        base = self._memory.source[block].ctypes.data

        def one(layer: int, part: int, token: int) -> KVTensor:
            return KVTensor(base + ((layer * 2 + part) * TOKENS + token) * PIECE, PIECE)

        return [[(one(layer, 0, token), one(layer, 1, token)) for layer in range(LAYERS)] for token in range(TOKENS)]

    def _start(self) -> Path:
        socket, etcd = self._directory / "vineyard.sock", f"http://127.0.0.1:{ETCD_PORT}"
        peers = f"http://127.0.0.1:{PEER_PORT}"
        self._run(
            "etcd", "--data-dir", str(self._directory / "etcd"), "--listen-client-urls", etcd,
            "--advertise-client-urls", etcd, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
            "--initial-cluster", f"default={peers}",
        )  # fmt: skip
        self._run(
            str(Path(vineyard.__file__).parent / "bdist" / "vineyardd"), "--socket", str(socket), "--size", "3Gi",
            "--meta", "etcd", "--etcd_endpoint", etcd, "--etcd_prefix", f"bench{os.getpid()}", "--rpc=false",
        )  # fmt: skip
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            try:
                vineyard.connect(str(socket)).close()
            except Exception:  # noqa: BLE001 -- whatever it raises: it is not there yet
                time.sleep(0.05)
            else:
                return socket
        raise TimeoutError("vineyardd did not start")

    def _run(self, *command: str) -> None:
        beside = Path(sys.executable).parent
        environment = {**os.environ, "PATH": f"{beside}:{os.environ['PATH']}"}
        self._processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=2))


serve(VineyardLlm)
