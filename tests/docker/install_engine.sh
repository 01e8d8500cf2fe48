#!/usr/bin/env bash
# Install a Docker engine, and the packages that the box image is copied from, on a Debian machine.
# Status 1 and a reason where that cannot be done. Starts nothing: the tests do.
set -euo pipefail
wanted=(docker.io iptables iproute2 curl python3 mawk procps ca-certificates)
missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed' || missing+=("$package")
done
[ "${#missing[@]}" -eq 0 ] && exit 0
command -v apt-get >/dev/null || { echo "no apt-get to install ${missing[*]} with" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || { echo "not root: cannot install ${missing[*]}" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update >&2
apt-get -qq install -y --no-install-recommends "${missing[@]}" >&2
