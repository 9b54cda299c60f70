"""The program of a cache's container: one shell script around vineyardd. Pure text.

It keeps vineyardd alive, each life with an incarnation of its own: the kubelet's restarts come after 0.4, 12, 23 s. It
gives up after five lives that did not last, so that a true crash loop is Kubernetes' to show. Needs `sh` and coreutils.
"""

from typing import Final

from kvberth.kvcache import SOCKET_GROUP, SOCKET_NAME

DIRECTORY: Final = "/var/run"
RPC_PORT: Final = 9600
LOCK: Final = "vineyard.lock"

_SCRIPT = """\
v=$(command -v vineyardd) || {{ echo "this image has no vineyardd in its PATH"; exit 1; }}
if [ "$(stat -c %g {directory})" != {group} ]; then
  chgrp {group} {directory} && chmod 2770 {directory} || echo "{directory} could not be given to group {group}"
fi
p=
trap 'kill $p 2>/dev/null; wait $p; exit 0' TERM INT
exec 9>{directory}/{lock}
if command -v flock >/dev/null; then
  flock 9 & p=$!
  wait $p || exit 1
else
  echo "this image has no flock, so nobody waits until an earlier life of this cache has ended"
fi
n=0
while [ $n -lt 5 ]; do
  t=$(date +%s)
  PATH=/nonexistent "$v" --socket={directory}/{socket} --size={size} --meta=local {rpc} --compression=false \\
    --deployment="$(cat /proc/sys/kernel/random/uuid)" 9>&- & p=$!
  wait $p
  echo "vineyardd ended with $?"
  if [ $(( $(date +%s) - t )) -lt 10 ]; then n=$(( n + 1 )); else n=0; fi
done
echo "vineyardd ended five times within 10 s of its start"
exit 1
"""


def cache_script(size_bytes: int, *, rpc: bool, directory: str = DIRECTORY, group: int = SOCKET_GROUP) -> str:
    """Return the script. Without RPC the daemon opens no port."""
    return _SCRIPT.format(
        directory=directory,
        group=group,
        lock=LOCK,
        socket=SOCKET_NAME,
        size=size_bytes,
        rpc=f"--rpc_socket_port={RPC_PORT}" if rpc else "--rpc=false",
    )
