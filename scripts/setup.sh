#!/usr/bin/env bash
# Installs the Debian packages that kvloupe needs (scripts/packages.txt). If all are installed, it does
# nothing and takes well under a second. Called by demo.sh and test.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not a Debian system. Install the packages of scripts/packages.txt with your package manager," >&2
  echo "       then build with: cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release && cmake --build build" >&2
  exit 0
fi

mapfile -t packages < <(grep -vE '^[[:space:]]*(#|$)' "$here/packages.txt")
missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "setup: missing packages and no sudo. As root run: apt-get install ${missing[*]}" >&2
    exit 1
  }
  sudo=(sudo)
fi
echo "setup: installing ${#missing[@]} Debian packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
