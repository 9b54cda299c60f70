#!/usr/bin/env bash
# Runs `make test-compose` where containers can be run without an image registry, as in CI; elsewhere says what it skips.
set -euo pipefail
cd "$(dirname "$0")/.."
kit=../shared/kube
missing=()
[ "$(id -u)" = 0 ] || missing+=(root)
[ -x "$kit/base-image.sh" ] || missing+=("$kit")
for program in podman runc iptables debootstrap; do command -v "$program" > /dev/null || missing+=("$program"); done
if [ ${#missing[@]} -gt 0 ]; then
  printf '== SKIPPED: make test-compose (the image and docker-compose.yml), for want of: %s\n' "${missing[*]}" >&2
  exit 0
fi
CONTAINERS_CONF=$(realpath "$kit/containers.conf")
export CONTAINERS_CONF
"$kit/base-image.sh"
pip_conf=$(mktemp)
trap 'rm -f "$pip_conf"' EXIT
printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' > "$pip_conf"
export KVBERTH_TEST_BUILD_FLAGS="--pull=never --isolation chroot --network host -v /etc/ssl/certs:/etc/ssl/certs:ro -v $pip_conf:/etc/pip.conf:ro"
make test-compose
