#!/usr/bin/env bash
# Builds this tree in a fresh Debian 13 and runs its fast tests there:
#   scripts/check-debian13.sh [PRESET [TARGET ...]]
# Default: the preset release, all targets. Needs root, debootstrap or mmdebstrap, and a mirror (DEBIAN_MIRROR);
# about 10 GB of disk. The system stays in build-debian13/root, so that a second run installs and builds only what is
# new; a run with FRESH=1 makes another. The tree is copied there: nothing is written outside of build-debian13.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
preset=${1:-release}
shift || true
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
suite=trixie
root=$PWD/build-debian13/root
place=/src/kvloupe # of the tree inside

fail() {
  echo "check-debian13: $*" >&2
  exit 1
}
[ "$(id -u)" -eq 0 ] || fail "needs root, for the system to build in"
grep -q "\"name\": \"$preset\"" CMakePresets.json || fail "preset '$preset': unknown; CMakePresets.json names them"

finish() {
  for mounted in dev/pts dev/shm proc; do
    ! mountpoint -q "$root/$mounted" || umount "$root/$mounted"
  done
}
trap finish EXIT
[ "${FRESH:-0}" = 0 ] || rm -rf --one-file-system "$root"

if [ ! -f "$root/etc/complete" ]; then
  echo "== a fresh $suite"
  rm -rf --one-file-system "$root"
  mkdir -p "${root%/*}"
  if command -v mmdebstrap >/dev/null; then
    mmdebstrap --quiet --variant=minbase "$suite" "$root" "$mirror"
  else
    debootstrap --variant=minbase "$suite" "$root" "$mirror" >/dev/null
  fi
  touch "$root/etc/complete"
fi
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm" "$root/dev/pts" "$root$place"
mount -t tmpfs tmpfs "$root/dev/shm"
# A test completes command lines in a terminal.
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -sf pts/ptmx "$root/dev/ptmx"
cp /etc/resolv.conf "$root/etc/resolv.conf"
inside() {
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive CCACHE_DIR=/var/cache/ccache "$@"
}

echo "== the tree"
# The files that git knows or would add; files deleted from the tree are deleted there, too, but the builds stay.
find "$root$place" -mindepth 1 -maxdepth 1 ! -name 'build*' -exec rm -rf {} +
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [ ! -e "$file" ] || printf '%s\0' "$file"
done | tar --create --null --files-from=- | tar --extract --directory "$root$place"

echo "== packages"
inside "$place/scripts/setup.sh"
inside g++ --version | head -n 1
echo "== build: $preset"
inside "$place/scripts/build.sh" "$preset" "$@"
echo "== fast tests"
folder=$(sed -n "/\"name\": \"$preset\"/,/}/s/.*\"binaryDir\": \"\${sourceDir}\/\([^\"]*\)\".*/\1/p" CMakePresets.json | head -n 1)
inside ctest --test-dir "$place/${folder:-build}" --output-on-failure --parallel "$(nproc)" -L fast
echo "check-debian13: $preset builds on Debian $(cat "$root/etc/debian_version"), and its fast tests pass"
