# Sourced by the scripts that test the Python package: make_venv FOLDER PACKAGE==VERSION ...
# Makes a virtual environment with these packages and the package in capture/python, once, and tells its
# tests where the programs of build/ are. Call it from the root of the repository.
make_venv() {
  local folder=$1
  shift
  export KVLOUPE=$PWD/build/bin/kvloupe KVLOUPE_CAPTURE=$PWD/build/bin/kvloupe-capture
  [ "$(cat "$folder/installed" 2> /dev/null)" = "$*" ] && return
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet "$@" || {
    echo "$(basename "$0"): the packages cannot be had from the Python Package Index; check the network" >&2
    exit 1
  }
  "$folder/bin/pip" install --quiet --no-deps --editable capture/python
  echo "$*" > "$folder/installed"
}
