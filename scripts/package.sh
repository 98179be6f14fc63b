#!/usr/bin/env bash
# Builds the programs and makes the Debian packages: build/kvloupe_VERSION_amd64.deb, and
# kvloupe-dev where the tree has headers to install. scripts/check-package.sh tries the package.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
scripts/setup.sh
scripts/build.sh release pages kvloupe_engine
cd build
rm -f kvloupe_*.deb kvloupe-dev_*.deb
cpack -G DEB >package.log 2>&1 || {
  tail -n 20 package.log >&2
  exit 1
}
ls "$PWD"/kvloupe*.deb
