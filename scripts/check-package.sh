#!/usr/bin/env bash
# Installs the Debian package in a fresh system, uses it as a person does, removes it, and checks that
# nothing is left: scripts/check-package.sh [SUITE [PACKAGE.deb]]. Default: bookworm, and the package in
# build/. The package kvloupe-dev beside it is tried too: its example is built and used. Needs root,
# debootstrap or mmdebstrap, and a mirror (DEBIAN_MIRROR). About 3 GB of disk.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
suite=${1:-bookworm}
packages=(build/kvloupe_*.deb)
package=${2:-${packages[0]}}
dev=${package/kvloupe_/kvloupe-dev_}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

fail() {
  echo "check-package: $*" >&2
  exit 1
}
[ "$(id -u)" -eq 0 ] || fail "needs root, for the system to install in"
for file in "$package" "$dev"; do
  [ -f "$file" ] || fail "$file is missing; make it with scripts/package.sh"
done

if command -v lintian >/dev/null; then
  echo "== lintian"
  lintian --allow-root --fail-on error,warning "$package" || fail "lintian objects"
else
  echo "== lintian is not installed: not checked"
fi

folder=$(mktemp -d)
root=$folder/root
finish() {
  for place in dev/shm proc; do
    ! mountpoint -q "$root/$place" || umount "$root/$place"
  done
  # Never across a mount that is still there.
  rm -rf --one-file-system "$folder"
}
trap finish EXIT

echo "== a fresh $suite"
if command -v mmdebstrap >/dev/null; then
  mmdebstrap --quiet --variant=minbase "$suite" "$root" "$mirror"
else
  debootstrap --variant=minbase "$suite" "$root" "$mirror" >/dev/null
fi
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm"
mount -t tmpfs tmpfs "$root/dev/shm"
cp /etc/resolv.conf "$root/etc/resolv.conf"
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
# As a person without a terminal and without a display.
person() { inside su reader -s /bin/sh -c "cd /home/reader && $*" </dev/null; }
inside apt-get update -qq
# Packages that open the window, find the type of a file, and build a plugin; kvloupe itself does not need them.
inside apt-get -o Dpkg::Use-Pty=0 install -y -qq --no-install-recommends \
  xvfb xauth libgl1-mesa-dri libglib2.0-bin shared-mime-info desktop-file-utils g++ cmake make >/dev/null 2>&1
inside useradd -m reader
files() { (cd "$root" && find . -xdev \( -path ./proc -o -path ./var/cache -o -path ./var/lib/apt -o -path ./var/log \
  -o -path ./var/lib/dpkg -o -path ./tmp \) -prune -o -print | sort); }
files >"$folder/before"

echo "== install"
cp "$package" "$root/tmp/kvloupe.deb"
inside apt-get -o Dpkg::Use-Pty=0 install -y -qq --no-install-recommends /tmp/kvloupe.deb >"$folder/install.log" 2>&1 ||
  { tail -n 20 "$folder/install.log" >&2; fail "the package cannot be installed"; }
cp "$dev" "$root/tmp/kvloupe-dev.deb"
inside apt-get -o Dpkg::Use-Pty=0 install -y -qq --no-install-recommends /tmp/kvloupe-dev.deb >"$folder/install.log" 2>&1 ||
  { tail -n 20 "$folder/install.log" >&2; fail "the package kvloupe-dev cannot be installed"; }
inside dpkg -L kvloupe kvloupe-dev >"$folder/owned"

echo "== use"
person kvloupe --version
person kvloupe-capture --version
person kvloupe lesson 02-attention-sinks --pdf sinks.pdf
head -c 5 "$root/home/reader/sinks.pdf" | grep -q '%PDF-' || fail "the lesson is not a PDF"
person kvloupe-capture run --model /usr/share/kvloupe/demo-model --prompt /usr/share/kvloupe/prompts/needle.txt \
  --generate 8 --progress none -o trace.h5
for format in svg pdf png csv html; do
  person kvloupe export trace.h5 --figure filmstrip --policy keydiff --budget 25% -o "strip.$format"
  [ -s "$root/home/reader/strip.$format" ] || fail "strip.$format is empty"
done
# Without a display `kvloupe demo` captures, says in one line that the window cannot open, and ends with 1.
code=0
person kvloupe demo 2>"$folder/demo" || code=$?
[ "$code" -eq 1 ] || fail "kvloupe demo without a display ended with $code"
[ "$(wc -l <"$folder/demo")" -eq 1 ] || fail "kvloupe demo without a display did not say one line"
cat "$folder/demo"
# The menu's own line: it finds the demo model.
line=$(sed -n 's/^Exec=\(kvloupe demo\)$/\1/p' "$root/usr/share/applications/kvloupe.desktop")
[ -n "$line" ] || fail "the menu has no entry for the demo"
person xvfb-run -a "$line" --screenshot demo.png --size 1200x800
head -c 4 "$root/home/reader/demo.png" | grep -q PNG || fail "the window showed nothing"
# A double click on a trace.
person gio info -a standard::content-type trace.h5 >"$folder/type"
grep application/x-kvloupe-trace "$folder/type" || fail "a trace has another type"
person gio mime application/x-kvloupe-trace >"$folder/opens"
grep -q '^Default.*kvloupe.desktop' "$folder/opens" || fail "a trace does not open in kvloupe"

echo "== a policy of one's own"
person "cp -r /usr/share/doc/kvloupe/examples/policy-plugin . && cmake -S policy-plugin -B policy-plugin/build >cmake.log &&
  cmake --build policy-plugin/build >>cmake.log" || fail "the example of kvloupe-dev does not build"
person kvloupe policies --plugin policy-plugin/build/small_keys.so >"$folder/policies"
grep '^smallkeys ' "$folder/policies" || fail "the example's policy is not in the catalogue"
# The example computes what the program's own policy keynorm does: the same cells, but for the settings.
person kvloupe export trace.h5 --figure filmstrip --plugin policy-plugin/build/small_keys.so --policy smallkeys \
  --budget 25% -o plugin.csv
person kvloupe export trace.h5 --figure filmstrip --policy keynorm --budget 25% -o own.csv
for file in plugin own; do grep -v '^#' "$root/home/reader/$file.csv" >"$folder/$file.csv"; done
[ "$(wc -l <"$folder/own.csv")" -gt 100 ] || fail "the film strip has no cells"
cmp "$folder/plugin.csv" "$folder/own.csv" || fail "the example's policy keeps other entries than keynorm"

echo "== remove"
inside apt-get -o Dpkg::Use-Pty=0 purge -y -qq kvloupe kvloupe-dev >/dev/null 2>&1
inside apt-get -o Dpkg::Use-Pty=0 autoremove --purge -y -qq >/dev/null 2>&1
left=0
while read -r path; do
  if [ -e "$root$path" ] && ! grep -qxF ".$path" "$folder/before"; then
    echo "left: $path" >&2
    left=$((left + 1))
  fi
done <"$folder/owned"
rm -rf "$root/home/reader" # what the person made, and the demo's trace in the person's cache
files >"$folder/after"
if grep kvloupe "$folder/after" >&2; then left=$((left + 1)); fi
[ "$left" -eq 0 ] || fail "$left things of the package are left"
echo "new files of other packages, such as caches of fonts and names of libraries: $(comm -13 "$folder/before" "$folder/after" | wc -l)"
echo "check-package: $(basename "$package") and $(basename "$dev") install, work and are removed on $suite"
