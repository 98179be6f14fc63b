#!/usr/bin/env bash
# Installs the wheel in fresh systems, uses it as a person does, and removes it: scripts/check-wheel.sh [SUITE ...]
# Default: bookworm and trixie (Debian 12 and 13), and the wheel of scripts/wheel.sh in build/. Each system is first a
# server, with python3-venv and nothing of a desktop, then gets what a bare desktop has. The programs run without a
# network. Needs root, debootstrap or mmdebstrap, a mirror (DEBIAN_MIRROR), and the Python Package Index for numpy and
# h5py; pip's variables (PIP_INDEX_URL, PIP_CERT …) hold inside, too. About 2 GB of disk, given back at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
suites=("$@")
[ ${#suites[@]} -gt 0 ] || suites=(bookworm trixie)
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

fail() {
  echo "check-wheel: $*" >&2
  exit 1
}
[ "$(id -u)" -eq 0 ] || fail "needs root, for the systems to install in"
wheels=(build/kvloupe-*-manylinux_2_36_x86_64.whl)
wheel=${wheels[0]}
[ -f "$wheel" ] || fail "$wheel is missing; make it with scripts/wheel.sh"
size=$(stat -c %s "$wheel")
[ "$size" -le 100000000 ] || fail "$wheel has $size bytes, more than 100 MB"

folder=$(mktemp -d)
root=$folder/root
display=
# A display of this machine, whose socket the system inside sees.
start_display() {
  Xvfb :77 -screen 0 1280x800x24 -nolisten tcp >"$folder/display.log" 2>&1 &
  display=$!
  mkdir -p "$root/tmp/.X11-unix"
  for _ in $(seq 50); do
    [ ! -S /tmp/.X11-unix/X77 ] || break
    sleep 0.1
  done
  touch "$root/tmp/.X11-unix/X77"
  mount --bind /tmp/.X11-unix/X77 "$root/tmp/.X11-unix/X77" || fail "display :77 of this machine did not start"
}
stop_display() {
  ! mountpoint -q "$root/tmp/.X11-unix/X77" || umount "$root/tmp/.X11-unix/X77"
  [ -z "$display" ] || { kill "$display" && wait "$display"; } 2>/dev/null || true
  display=
}
finish() {
  stop_display
  for place in dev/shm proc; do
    ! mountpoint -q "$root/$place" || umount "$root/$place"
  done
  rm -rf --one-file-system "$root"
}
trap 'finish; rm -rf --one-file-system "$folder"' EXIT

clean=(/usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive)
inside() { chroot "$root" "${clean[@]}" "$@"; }
install() {
  inside apt-get -o Dpkg::Use-Pty=0 install -y -qq --no-install-recommends "$@" >"$folder/install.log" 2>&1 ||
    { tail -n 20 "$folder/install.log" >&2; fail "packages cannot be installed: $*"; }
}
# As a person without a terminal, a display and a network, with the virtual environment's commands.
person() {
  unshare --net chroot "$root" "${clean[@]}" su reader -s /bin/sh -c \
    "cd /home/reader && PATH=/home/reader/venv/bin:\$PATH && $*" </dev/null
}
# The same, which must say nothing, and how long it took.
quiet() {
  local start=$EPOCHREALTIME
  person "$@" >"$folder/said" 2>&1 || { cat "$folder/said" >&2; fail "failed: $*"; }
  [ ! -s "$folder/said" ] || { cat "$folder/said" >&2; fail "said something: $*"; }
  awk -v from="$start" -v to="$EPOCHREALTIME" -v what="$*" 'BEGIN { printf "%6.1f s  %s\n", to - from, what }'
}
# Fails as it should: ends with 1 and one line.
refuses() {
  local code=0
  person "$@" >"$folder/said" 2>&1 || code=$?
  cat "$folder/said"
  [ "$code" -eq 1 ] || fail "ended with $code: $*"
  [ "$(wc -l <"$folder/said")" -eq 1 ] || fail "did not say one line: $*"
}
home=$root/home/reader
with_pip=()
while IFS= read -r -d '' variable; do
  case $variable in PIP_CERT=* | PIP_FIND_LINKS=*) ;; PIP_*) with_pip+=("$variable") ;; esac
done < <(env -0)

check() {
  local suite=$1
  echo "== a fresh $suite, as a server"
  if command -v mmdebstrap >/dev/null; then
    mmdebstrap --quiet --variant=minbase "$suite" "$root" "$mirror"
  else
    debootstrap --variant=minbase "$suite" "$root" "$mirror" >/dev/null
  fi
  mount -t proc proc "$root/proc"
  mkdir -p "$root/dev/shm"
  mount -t tmpfs tmpfs "$root/dev/shm"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  inside apt-get update -qq
  install python3-venv ca-certificates
  inside useradd -m reader
  for name in libGL libOpenGL libEGL libX11 libglib-2.0; do
    [ -z "$(find "$root/usr/lib" -name "$name.so*")" ] || fail "$suite has $name: it is no bare server"
  done
  cp "$wheel" "$home/"
  if [ -n "${PIP_CERT:-}" ]; then
    cp "$PIP_CERT" "$root/tmp/certificates.pem"
    with_pip+=(PIP_CERT=/tmp/certificates.pem)
  fi
  # The pip lines that a person writes; the index gives numpy and h5py.
  local start=$EPOCHREALTIME
  inside su reader -s /bin/sh -c "cd /home/reader && python3 -m venv venv &&
    env ${with_pip[*]@Q} venv/bin/pip install --quiet ./$(basename "$wheel")" ||
    fail "pip cannot install the wheel on $suite"
  awk -v from="$start" -v to="$EPOCHREALTIME" 'BEGIN { printf "%6.1f s  venv and pip install\n", to - from }'
  du -sh "$home"/venv/lib/python3*/site-packages/kvloupe* | sed "s|$home/venv/||"


  echo "== the list of contents"
  cp scripts/wheel/check_contents.py "$home/"
  person python check_contents.py || fail "the list of contents is wrong"

  echo "== without display, OpenGL and X11"
  person kvloupe --version
  person kvloupe-capture --version
  quiet kvloupe lesson 02-attention-sinks --pdf sinks.pdf
  head -c 5 "$home/sinks.pdf" | grep -q '%PDF-' || fail "the lesson is not a PDF"
  local share
  share=$(cd "$home" && echo venv/lib/python3*/site-packages/kvloupe/share/kvloupe)
  quiet kvloupe-capture run --model "$share/demo-model" --prompt "$share/prompts/needle.txt" --generate 8 --progress none -o trace.h5
  for format in svg pdf png csv html; do
    quiet kvloupe export trace.h5 --figure filmstrip --policy keydiff --budget 25% -o "strip.$format"
    [ -s "$home/strip.$format" ] || fail "strip.$format is empty"
  done
  quiet kvloupe export trace.h5 --figure loss-table --budgets 10%,25% -o table.tex
  grep -q tabular "$home/table.tex" || fail "table.tex is no table"
  # Letters of other scripts have fonts in the wheel: the figure shows no empty boxes.
  quiet kvloupe-capture run --model "$share/demo-model" --text "'one two three four'" --progress none -o scripts.h5
  quiet "python -c 'import h5py; h5py.File(\"scripts.h5\", \"r+\")[\"tokens/text\"][1:5] = [\"नमस्ते\", \"مرحبا\", \"你好\", \"ไทย\"]'"
  quiet kvloupe export scripts.h5 --figure tokens -o scripts.pdf
  for font in Inter JetBrainsMono NotoSansDevanagari DejaVuSans DroidSansFallback NotoSansThai; do
    grep -aq "+$font" "$home/scripts.pdf" || fail "the figure has no letters of $font"
  done
  quiet "python -c 'import kvloupe; kvloupe.figure(\"trace.h5\", \"filmstrip\", policy=\"h2o\", budget=\"25%\").save(\"python.pdf\")'"
  quiet "python -c 'import kvloupe; assert kvloupe.replay(\"trace.h5\", \"h2o\", \"25%\")[\"heads\"]'"
  refuses kvloupe demo
  refuses kvloupe trace.h5
  # A display without OpenGL, such as a server's that is seen over ssh -X.
  if command -v Xvfb >/dev/null; then
    start_display
    refuses DISPLAY=:77 kvloupe trace.h5
    stop_display
  else
    echo "Xvfb is not installed: a display without OpenGL is not tried"
  fi
  cp "$home/strip.svg" "$folder/$suite.svg"
  cp "$home/strip.png" "$folder/$suite.png"

  echo "== a bare desktop"
  install libgl1 libegl1 libx11-6 libgl1-mesa-dri xvfb xauth x11-utils
  quiet xvfb-run -a kvloupe demo --screenshot demo.png --size 1200x800
  head -c 4 "$home/demo.png" | grep -q PNG || fail "the window showed nothing"
  cp "$home/demo.png" "build/wheel/demo-$suite.png"
  # An offscreen picture is what the window shows; here the window itself opens, and stays when Python has ended.
  start=$EPOCHREALTIME
  person "xvfb-run -a sh -c 'python -c \"import kvloupe; kvloupe.demo()\" && for i in \$(seq 60); do
      xwininfo -root -tree | grep -i kvloupe && exit 0; sleep 0.5; done; exit 1'" >"$folder/said" 2>&1 ||
    { cat "$folder/said" >&2; fail "kvloupe.demo() opened no window"; }
  awk -v from="$start" -v to="$EPOCHREALTIME" 'BEGIN { printf "%6.1f s  import kvloupe; kvloupe.demo(): the window is there\n", to - from }'

  echo "== remove"
  person pip uninstall --quiet --yes kvloupe
  rm -rf "$home/.cache" # the demo's trace, and Fontconfig's list
  ! find "$home/venv" -iname '*kvloupe*' | grep . || fail "this of the wheel is left"
  echo "check-wheel: $(basename "$wheel") ($(awk -v size="$size" 'BEGIN { printf "%.1f", size / 1e6 }') MB) installs, works and is removed on $suite"
  finish
}

for suite in "${suites[@]}"; do check "$suite"; done
for suite in "${suites[@]}"; do
  for kind in svg png; do
    cmp "$folder/${suites[0]}.$kind" "$folder/$suite.$kind" || fail "a figure differs between ${suites[0]} and $suite"
  done
done
echo "check-wheel: equal figures on ${suites[*]}"
