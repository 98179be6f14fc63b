#!/usr/bin/env bash
# Configures and builds one preset: scripts/build.sh [PRESET [TARGET ...]]. Default: release, all.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
preset=${1:-release}
shift || true
# One compiler job per core, but not more than one per 1.5 GB: torch headers are hungry.
jobs=$(nproc)
memory=$(awk '/MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo)
[ "$memory" -ge 1 ] && [ "$memory" -lt "$jobs" ] && jobs=$memory
log=$(mktemp) # of this call alone: two presets may be built at the same time
trap 'rm -f "$log"' EXIT
cmake --preset "$preset" >"$log" 2>&1 || {
  tail -n 20 "$log" >&2
  exit 1
}
cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"}
