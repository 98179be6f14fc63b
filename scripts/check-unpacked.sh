#!/usr/bin/env bash
# Unpacks the Debian package and the wheel of build/ into empty folders and uses both there, in some seconds and on this
# system: scripts/check-unpacked.sh. scripts/check-package.sh and scripts/check-wheel.sh try them in fresh systems.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
dpkg-deb -x build/kvloupe_*.deb "$folder/package"
build/wheel/tools/bin/pip install --quiet --no-deps --target "$folder/wheel" build/kvloupe-*.whl
mkdir "$folder/home"
# Without this tree and what the caller has set: PREFIX COMMAND …
use() {
  (cd "$folder/home" && env -i HOME="$folder/home" LANG=C.UTF-8 PATH="$folder/$1/bin:/usr/bin:/bin" \
    PYTHONPATH="$folder/wheel" PYTHONDONTWRITEBYTECODE=1 "${@:2}")
}
for prefix in package/usr wheel; do
  rm -rf "$folder"/home/{*,.[!.]*}
  use $prefix kvloupe --version
  use $prefix kvloupe-capture --version
  # Runs kvloupe-capture beside it on the demo model that comes with it.
  use $prefix xvfb-run -a kvloupe demo --screenshot demo.png --size 1200x800
  head -c 4 "$folder/home/demo.png" | grep -q PNG
done
python=$PWD/build/python/bin/python # has numpy and h5py
trace=$(find "$folder/home" -name '*.h5' -size +100k | head -n 1) # beside it a mark of the same name
use wheel "$python" -c 'import sys, kvloupe
assert kvloupe.__file__.startswith(sys.path[1] + "/"), kvloupe.__file__
assert len(kvloupe.replay(sys.argv[1], "keydiff", "25%").layer_head)' "$trace"
echo "check-unpacked: the package and the wheel work where they are unpacked"
