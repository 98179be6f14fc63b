# Sourced by the scripts that test the Python package: make_venv FOLDER PACKAGE==VERSION ...
# Makes a virtual environment with these packages, those below, and the package in python/, once, and tells
# its tests where the programs of build/ are. Call it from the root of the repository.

# The packages of all environments: gigabytes, installed once, in a virtual environment that the others see.
shared_packages=(numpy==2.4.6 h5py==3.16.0 pytest==9.2.0 torch==2.15.0)

install_packages() {
  local folder=$1
  shift
  "$folder/bin/pip" install --quiet "$@" || {
    echo "$(basename "$0"): the packages cannot be had from the Python Package Index; check the network" >&2
    exit 1
  }
}

make_shared_venv() {
  local folder=build/torch lock
  mkdir -p build
  exec {lock}>build/torch.lock
  flock $lock # another script may be at it
  if [ "$(cat "$folder/installed" 2> /dev/null)" != "${shared_packages[*]}" ]; then
    python3 -m venv --clear "$folder"
    install_packages "$folder" "${shared_packages[@]}"
    echo "${shared_packages[*]}" > "$folder/installed"
  fi
  exec {lock}>&-
}

site_packages() {
  "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
}

make_venv() {
  local folder=$1 wanted
  shift
  export KVLOUPE=$PWD/build/bin/kvloupe KVLOUPE_CAPTURE=$PWD/build/bin/kvloupe-capture
  make_shared_venv
  wanted="${shared_packages[*]} and $* and python/"
  [ "$(cat "$folder/installed" 2> /dev/null)" = "$wanted" ] && return
  python3 -m venv --clear "$folder"
  site_packages build/torch > "$(site_packages "$folder")/shared.pth"
  install_packages "$folder" "$@"
  "$folder/bin/pip" install --quiet --no-deps --editable python
  echo "$wanted" > "$folder/installed"
}
