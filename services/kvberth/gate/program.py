"""The gate: holds an engine's start back until the cache on its node has answered. One file, standard library only.

It runs in the engine's own image by any Python from 3.8 on, as a text in its pod: so it imports nothing of ours and
holds no dollar sign, which the kubelet would take for a variable. Ready is an answered register request and one byte
that went in and came back, never a file or a bare connect. It holds no engine for ever unless the KVCache says so.
Usage: gate SOCKET [TERMINATION_LOG]. Exit codes: 0 the engine may start (the message says whether with its cache); 1
the KVCache says `wait` and its time is over; 2 wrong command line; 128 + n ended by signal n.
"""

# pathlib would be much of the time from this program's start to its first look:
# ruff: noqa: PTH110, PTH116, PTH118, PTH120, PTH123

from __future__ import annotations

import array
import errno
import json
import os
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

LEGACY_PREFIX = "AIBRIX_LLM_KV_CACHE"
RPC_VARIABLE = "AIBRIX_LLM_KV_CACHE_RPC_ENDPOINT"
LEGACY_TIMEOUT_S, TIMEOUT_S = 600.0, 30.0
RULE_HOLDS_S = 60.0  # a node agent that lives renews its file far more often
PROBE_S, POLL_S, SAY_S, RPC_S = 2.0, 0.1, 5.0, 1.0
TERMINATION_LOG = "/dev/termination-log"
MAX_PATH_BYTES, MAX_READ_BYTES, FD_BYTES = 107, 64 * 1024, array.array("i").itemsize
CODE_NOT_ENOUGH_MEMORY = 41
HELLO = {"version": "0.24.2", "store_type": "Normal", "session_id": 0, "username": "", "password": ""}
HELLO["type"] = "register_request"


class NotOpen(Exception):  # noqa: N818 - no error: what an engine is still waiting for
    """The cache is not ready: a reason in one word, a sentence, and the daemon's code where it refused a request."""

    def __init__(self, reason: str, what: str, code: object = None) -> None:
        super().__init__(reason, what)
        self.reason, self.what, self.code = reason, what, code


class Patience(NamedTuple):
    """How long to wait in seconds (None: without end), and whether the engine starts without its cache then."""

    timeout_s: float | None
    starts_without: bool


class Ending(NamedTuple):
    """How the gate ended, as its termination message tells it."""

    outcome: str
    reason: str
    waited_s: float
    message: str
    code: int = 0


def parse_rule(text: str, default: Patience) -> Patience:
    """Read gate.json: {"policy": "wait", "startWithoutCache" or null, "timeout_s": a number or null}.

    What it does not say is by default; raises ValueError where it says something else.
    """
    told = json.loads(text)
    policy, timeout_s = (told.get("policy"), told.get("timeout_s")) if isinstance(told, dict) else (told, None)
    if policy not in (None, "wait", "startWithoutCache") or not isinstance(told, dict):
        raise ValueError(f"policy is {policy!r:.100}, expected wait or startWithoutCache")
    if timeout_s is None:
        return Patience(None, starts_without=False) if policy == "wait" else default
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not 0 <= timeout_s < 1e9:
        raise ValueError(f"timeout_s is {timeout_s!r:.100}, expected seconds")
    return Patience(float(timeout_s), starts_without=policy != "wait")


def timed_out(limit: Patience, why: NotOpen, waited_s: float) -> Ending:
    if limit.starts_without:
        return Ending("timeout", why.reason, waited_s, f"the engine starts without its cache: {why.what}")
    return Ending("closed", why.reason, waited_s, f"the KVCache says wait, so no engine starts: {why.what}", code=1)


def connect_failure(path: str, error: OSError) -> NotOpen:
    if isinstance(error, BlockingIOError):
        return NotOpen("DaemonHung", f"{path}: vineyardd does not take new connections, its queue is full")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NotOpen("SocketMissing", f"{path}: there is no socket, vineyardd has not started here")
    if error.errno in (errno.EACCES, errno.EPERM):
        who = f"user {os.geteuid()}:{os.getegid()} with groups {sorted(os.getgroups())}"
        modes = "; ".join(describe(each) for each in (os.path.dirname(path) or ".", path))
        return NotOpen("SocketDenied", f"{path}: {who} may not reach this socket ({modes})")
    if error.errno in (errno.ECONNREFUSED, errno.EPROTOTYPE):
        return refusal(path, error)
    return NotOpen("CannotAsk", f"{path}: connecting failed ({error})")


def describe(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError as error:
        return f"{path}: {error.strerror}"
    return f"{path} has mode {stat.S_IMODE(found.st_mode):04o} and belongs to {found.st_uid}:{found.st_gid}"


def refusal(path: str, error: OSError) -> NotOpen:
    """The kernel refuses alike at a dead daemon's socket and at what is no socket at all."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return NotOpen("SocketMissing", f"{path}: the socket went away while connecting")
    if stat.S_ISDIR(mode):
        return NotOpen("SocketIsDirectory", f"{path}: a directory is where vineyardd's socket should be")
    if not stat.S_ISSOCK(mode) or error.errno == errno.EPROTOTYPE:
        return NotOpen("NotASocket", f"{path}: this is no stream socket, vineyardd's should be here")
    return NotOpen("SocketStale", f"{path}: nobody listens on this socket, its vineyardd is dead")


def frame(request: dict[str, object]) -> bytes:
    body = json.dumps(request).encode()
    return struct.pack("<Q", len(body)) + body


def probe(path: str, timeout_s: float) -> tuple[str, str]:
    """Register, and send one byte there and back, all within the time; returns reason and sentence, or NotOpen."""
    length = len(os.fsencode(path))
    if length > MAX_PATH_BYTES:
        raise NotOpen("SocketPathTooLong", f"{path}: a path of {length} bytes, {MAX_PATH_BYTES} are possible")
    try:
        talk = Talk(path, timeout_s)
    except OSError as error:
        raise NotOpen("CannotAsk", f"{path}: no socket can be made here ({error})") from None
    try:
        talk.connect()
        talk.ask(HELLO, "register_reply")
        return round_trip(talk)
    except socket.timeout:
        raise NotOpen("DaemonHung", f"{path}: connected, and no answer within {timeout_s:.1f} s") from None
    except OSError as error:
        raise NotOpen("ConnectionGone", f"{path}: the connection broke ({error})") from None
    finally:
        talk.close()


class Talk:
    """One connection; all of it together ends by a deadline (socket.timeout), and it closes what it was given."""

    def __init__(self, path: str, timeout_s: float) -> None:
        self.path = path
        self._ends = time.monotonic() + timeout_s
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._fds: list[int] = []

    def close(self) -> None:
        self._sock.close()
        for fd in self._fds:
            os.close(fd)

    def connect(self) -> None:
        try:
            self._timed().connect(self.path)
        except OSError as error:
            raise connect_failure(self.path, error) from None

    def ask(self, request: dict[str, object], reply_type: str) -> dict[str, Any]:
        self._timed().sendall(frame(request))
        (length,) = struct.unpack("<Q", self._read(8))
        if not 0 < length <= MAX_READ_BYTES:
            raise self.nonsense(f"a reply of {length} bytes is announced")
        try:
            reply = json.loads(self._read(length).decode())
        except (ValueError, RecursionError):
            raise self.nonsense(f"{length} bytes are not JSON") from None
        code = reply.get("code", 0) if isinstance(reply, dict) else 0
        if code != 0:
            what = f"{self.path}: vineyardd refused with code {code!s:.20}: {reply.get('message')!s:.200}"
            raise NotOpen("RequestRefused", what, code)
        if not isinstance(reply, dict) or reply.get("type") != reply_type:
            raise self.nonsense(f"{reply!r:.100} is no {reply_type}")
        return reply

    def receive_fd(self) -> int:
        """The descriptor that comes with the next byte; it is closed with the connection."""
        data, ancillary, _, _ = self._timed().recvmsg(1, socket.CMSG_LEN(FD_BYTES), socket.MSG_CMSG_CLOEXEC)
        fds = array.array("i")
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(payload[: len(payload) - len(payload) % FD_BYTES])
        self._fds.extend(fds)
        if not data or not fds:
            raise self.nonsense("a descriptor is announced and none comes")
        return fds[0]

    def nonsense(self, what: str) -> NotOpen:
        return NotOpen("ProtocolError", f"{self.path}: what answers is no vineyardd: {what}")

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self._timed().recv(count - len(data))
            if not chunk:
                raise NotOpen("ConnectionGone", f"{self.path}: vineyardd closed the connection")
            data += chunk
        return data

    def _timed(self) -> socket.socket:
        left = self._ends - time.monotonic()
        if left <= 0:
            raise socket.timeout
        self._sock.settimeout(left)
        return self._sock


def round_trip(talk: Talk) -> tuple[str, str]:
    try:
        created = talk.ask({"type": "create_buffer_request", "size": 1}, "create_buffer_reply")
    except NotOpen as why:
        if why.code != CODE_NOT_ENOUGH_MEMORY:
            raise
        # The daemon lives, and waiting heals nothing: what is full stays full until an engine makes room.
        return "StoreFull", f"{talk.path}: the cache answers, and is full"
    blob = number(talk, created, "id")
    try:
        same = comes_back(talk, blob, created)
    except NotOpen as why:
        if why.code is not None:
            delete(talk, blob)  # unsealed, it would stay there for ever
        raise
    delete(talk, blob)
    if not same:
        raise NotOpen("WrongBytes", f"{talk.path}: a byte that went into the cache did not come back")
    return "SocketAnswered", f"{talk.path}: the cache answers"


def comes_back(talk: Talk, blob: int, created: dict[str, Any]) -> bool:
    if number(talk, created, "fd") == -1:
        raise talk.nonsense("it shares no memory with a new connection")
    memory, offset = talk.receive_fd(), number(talk, created, "created", "data_offset")
    byte = bytes([read_byte(talk, memory, offset) ^ 0xFF])
    os.pwrite(memory, byte, offset)
    talk.ask({"type": "seal_request", "object_id": blob}, "seal_reply")
    found = talk.ask({"type": "get_buffers_request", "0": blob, "num": 1, "unsafe": False}, "get_buffers_reply")
    if found.get("fds"):
        memory = talk.receive_fd()
    elif number(talk, found, "payloads", 0, "store_fd") != number(talk, created, "created", "store_fd"):
        raise talk.nonsense("it finds the blob in a memory that it has not shared")
    return read_byte(talk, memory, number(talk, found, "payloads", 0, "data_offset")) == byte[0]


def read_byte(talk: Talk, memory: int, offset: int) -> int:
    # No mapping: it would end this process with SIGBUS where the memory is shorter than told.
    if not stat.S_ISREG(os.fstat(memory).st_mode) or not 0 <= offset < os.fstat(memory).st_size:
        raise talk.nonsense(f"it places a blob at {offset}, which is not in the memory that it shares")
    return os.pread(memory, 1, offset)[0]


def delete(talk: Talk, blob: int) -> None:
    flags = {"force": False, "deep": True, "memory_trim": False, "fastpath": False}
    talk.ask(dict(flags, type="del_data_request", id=[blob]), "del_data_reply")


def number(talk: Talk, reply: dict[str, Any], *path: str | int) -> int:
    name, value = ".".join(map(str, path)), reply  # type: str, Any
    try:
        for key in path:
            value = value[key]
    except (LookupError, TypeError):
        raise talk.nonsense(f"a reply has no {name}") from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise talk.nonsense(f"{name} is {value!r:.100}, no number")
    return value


def rpc_complaint(endpoint: str) -> str:
    """Why the endpoint that the engine's env names does not answer; empty where it does. Takes RPC_S at most."""
    import threading  # for legacy engines only; a thread, because looking up a name has no time-out

    found = [f"no answer within {RPC_S:.0f} s"]
    asking = threading.Thread(target=lambda: found.append(ask_rpc(endpoint)), daemon=True)
    asking.start()
    asking.join(RPC_S)
    return found[-1]


def ask_rpc(endpoint: str) -> str:
    host, _, port = endpoint.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=RPC_S) as sock:
            sock.sendall(frame(HELLO))
            return "" if sock.recv(1) else "the connection was closed"
    except (OSError, ValueError, OverflowError) as error:
        return str(error)


class Gate:
    """Waits for one socket; `say` takes a line."""

    def __init__(self, path: str, env: Mapping[str, str], say: Callable[[str], None]) -> None:
        self.path, self._env, self._say = path, env, say
        legacy = any(name.startswith(LEGACY_PREFIX) for name in env)  # it would crash without its socket
        self._default = Patience(LEGACY_TIMEOUT_S if legacy else TIMEOUT_S, starts_without=True)
        self._started, self._said_at, self._complaint = time.monotonic(), -SAY_S, ""

    @property
    def waited_s(self) -> float:
        return time.monotonic() - self._started

    def wait(self) -> Ending:
        while True:
            limit = self._patience()  # each time anew: the KVCache may come, or change, while an engine waits
            left = float("inf") if limit.timeout_s is None else limit.timeout_s - self.waited_s
            try:
                reason, message = probe(self.path, min(PROBE_S, max(left, POLL_S)))
            except NotOpen as why:
                if limit.timeout_s is not None and self.waited_s >= limit.timeout_s:
                    return timed_out(limit, why, self.waited_s)
                self._tell(limit, why)
                time.sleep(min(POLL_S, max(left, 0)))
            else:
                return self._opened(reason, message)

    def _patience(self) -> Patience:
        """What gate.json says; the defaults where there is none, or where it is no rule, which is said."""
        path, complaint, limit = os.path.join(os.path.dirname(self.path), "gate.json"), "", self._default
        try:
            # Others may write in this directory: a pipe in the file's place must not hold anybody up.
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
                rule = parse_rule((file.read(MAX_READ_BYTES) or b"").decode(), limit)
                age_s = time.time() - os.fstat(file.fileno()).st_mtime
            if abs(age_s) <= RULE_HOLDS_S:
                limit = rule
            else:  # what is left of an agent or a KVCache that went must hold nobody
                complaint = f"{path} was not renewed for over {RULE_HOLDS_S:.0f} s, the defaults hold"
        except (OSError, ValueError, RecursionError) as error:
            missing = isinstance(error, (FileNotFoundError, NotADirectoryError))  # which is no fault
            complaint = "" if missing else f"{path} can't be used ({error}), the defaults hold"
        if complaint and complaint != self._complaint:
            self._say(complaint)
        self._complaint = complaint
        return limit

    def _opened(self, reason: str, message: str) -> Ending:
        waited_s, endpoint = self.waited_s, self._env.get(RPC_VARIABLE)
        complaint = rpc_complaint(endpoint) if endpoint else ""
        if complaint:  # said and no more: whether the engine needs it is not known here
            return Ending("open", "RpcUnreachable", waited_s, f"{message}; RPC at {endpoint}: {complaint}")
        return Ending("open", reason, waited_s, message)

    def _tell(self, limit: Patience, why: NotOpen) -> None:
        waited_s = self.waited_s
        if waited_s - self._said_at >= SAY_S:
            self._said_at = waited_s
            most = "without end" if limit.timeout_s is None else f"of {limit.timeout_s:.0f} s"
            self._say(f"waiting, {waited_s:.0f} s {most}: {why.reason}: {why.what}")


def say(line: str) -> None:
    try:
        os.write(1, f"kvberth-gate: {line}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return  # nobody can read it, which is no reason to hold an engine


def leave(ending: Ending, log: str) -> int:
    """Say how it ended, here and where the kubelet looks for it; returns the exit code."""
    told = {"kvberth": "gate", "outcome": ending.outcome, "reason": ending.reason}
    text = json.dumps(dict(told, waited_s=round(ending.waited_s, 3), message=ending.message[:500]))
    say(f"{ending.outcome} after {ending.waited_s:.1f} s: {ending.reason}: {ending.message}")
    if os.path.exists(log):  # it is never made: outside of a container there is none, and /dev is no place for files
        try:
            with open(log, "w") as file:
                file.write(text)
        except OSError as error:
            say(f"{log} can't be written ({error.strerror})")
    return ending.code


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2) or not arguments[0]:
        say("usage: gate SOCKET [TERMINATION_LOG]")
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        # Unhandled, no signal ends the first process of a container.
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    gate = Gate(arguments[0], os.environ, say)
    try:
        ending = gate.wait()
    except SystemExit as stopped:
        ending = Ending("stopped", "Signal", gate.waited_s, "ended by a signal", code=int(str(stopped.code)))
    except Exception as error:  # noqa: BLE001 - a fault of the gate must not hold an engine: it is said, loudly
        message = f"the gate itself failed, the engine starts: {error!r}"
        ending = Ending("fault", type(error).__name__, gate.waited_s, message)
    return leave(ending, arguments[1] if len(arguments) == 2 else TERMINATION_LOG)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
