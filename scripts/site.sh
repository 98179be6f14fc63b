#!/usr/bin/env bash
# Makes the project's site: scripts/site.sh [FOLDER]. All lessons with live figures, the demo's trace, the glossary, the
# claims, and the documentation, as files that any host serves and a browser opens from a disk.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/site}
/usr/bin/python3 -c 'import markdown' 2>/dev/null ||
  { echo "site: install the Debian package python3-markdown" >&2; exit 1; }
[ -x build/bin/kvloupe ] || { echo "site: build first: scripts/build.sh" >&2; exit 1; }
/usr/bin/python3 scripts/site_docs.py "$folder/docs"
build/bin/kvloupe lesson --site "$folder"
