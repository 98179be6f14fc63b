"""Compares the installed wheel with its own lists: every file of RECORD is there with its hash, every library, font and
program is in the CycloneDX list, and every package of it has its licence."""
import base64
import csv
import hashlib
import importlib.metadata
import json
from pathlib import Path

installed = importlib.metadata.distribution("kvloupe")
info = Path(str(installed.locate_file(f"kvloupe-{installed.version}.dist-info")))
root = info.parent
checked = 0
with open(info / "RECORD", newline="", encoding="utf-8") as lines:
    for name, digest, _ in csv.reader(lines):
        data = (root / name).read_bytes()
        if digest:
            wanted = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert digest == f"sha256={wanted}", f"{name}: RECORD has another hash"
            checked += 1
parts = json.loads((info / "sboms/kvloupe.cdx.json").read_text(encoding="utf-8"))["components"]
listed = {file["name"]: file["hashes"][0]["content"] for part in parts for file in [part, *part.get("components", [])]
          if file["type"] == "file"}
# One file is ours that stands where a library was.
own = {path for path in (root / "kvloupe.libs").glob("libcurl-*")}
carried = [path for folder in ("kvloupe.libs", "kvloupe/bin", "kvloupe/lib", "kvloupe/share/kvloupe/fonts")
           for path in (root / folder).rglob("*") if path.is_file() and path not in own]
for path in carried:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert listed.get(path.relative_to(root).as_posix()) == digest, f"{path}: is not in the list, or has another hash"
packages = [part["name"] for part in parts if part["type"] == "library"]
for package in packages:
    assert (info / f"licenses/debian/{package}.txt").stat().st_size > 100, f"{package}: no licence"
print(f"{checked} files as RECORD says; {len(carried)} programs, libraries and fonts of {len(packages)} packages are listed")
