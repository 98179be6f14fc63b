"""What is in the wheel, from where, under which licences: a CycloneDX list in dist-info/sboms, the licences' texts in
dist-info/licenses."""
from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from pathlib import Path
from urllib.parse import quote

from debian import common_licences_in, copyright_of, licences_in, package_of, version_of
from elf import is_elf, library

# In the programs themselves: headers and static libraries.
BUILT_IN = ["libimgui-dev", "libeigen3-dev", "nlohmann-json3-dev", "libcli11-dev"]
OWN = "kvloupe"


def _sources(folder: Path, fonts: list[Path]) -> dict[Path, str]:
    """The Debian package of each file that is not ours."""
    found: dict[Path, str] = {}
    for path in sorted((folder / "kvloupe.libs").rglob("*.so*")):
        name = re.sub(r"-[0-9a-f]{8}(?=\.)", "", path.name, count=1)
        if name == "libcurl.so.4":  # ours, in its place
            continue
        found[path] = package_of(library(name))
    for font in fonts:
        found[folder / "kvloupe/share/kvloupe/fonts" / font.name] = package_of(font)
    return found


def _component(package: str, files: list[Path], folder: Path) -> dict[str, object]:
    version, source, source_version = version_of(package)
    text = copyright_of(package).read_text(encoding="utf-8", errors="replace")
    names = licences_in(text)
    component: dict[str, object] = {
        "type": "library", "bom-ref": f"deb:{package}", "name": package, "version": version,
        "purl": f"pkg:deb/debian/{quote(package)}@{quote(version)}?arch=amd64&upstream={quote(source)}",
        "licenses": [{"license": {"name": name}} for name in names] or
                    [{"license": {"name": f"see licenses/debian/{package}.txt"}}],
        "properties": [{"name": "source", "value": f"{source} {source_version}"}]}
    if files:
        component["components"] = [
            {"type": "file", "name": path.relative_to(folder).as_posix(),
             "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]} for path in files]
    else:
        component["description"] = "compiled into the programs"
    return component


def write_contents(folder: Path, fonts: list[Path], source: Path, seconds: int) -> None:
    info = next(folder.glob("*.dist-info"))
    version = info.name.removesuffix(".dist-info").split("-")[1]
    files: dict[str, list[Path]] = {package: [] for package in BUILT_IN}
    for path, package in _sources(folder, fonts).items():
        files.setdefault(package, []).append(path)
    own = {"type": "application", "bom-ref": OWN, "name": OWN, "version": version, "purl": f"pkg:pypi/kvloupe@{version}",
           "licenses": [{"license": {"id": "MIT"}}]}
    model = folder / "kvloupe/share/kvloupe/demo-model/model.safetensors"
    programs = [path for path in sorted((folder / "kvloupe").rglob("*")) if path.is_file() and is_elf(path)]
    parts: list[dict[str, object]] = [
        {"type": "machine-learning-model", "bom-ref": "demo-model", "name": "kvloupe demo model", "version": version,
         "licenses": [{"license": {"id": "MIT"}}], "description": "trained by this project on text that it generates",
         "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(model.read_bytes()).hexdigest()}]}]
    parts += [{"type": "file", "bom-ref": f"file:{path.name}", "name": path.relative_to(folder).as_posix(),
               "licenses": [{"license": {"id": "MIT"}}],
               "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]}
              for path in programs]
    parts += [_component(package, paths, folder) for package, paths in sorted(files.items())]
    sboms = info / "sboms"
    sboms.mkdir(exist_ok=True)
    (sboms / "auditwheel.cdx.json").unlink(missing_ok=True)  # lists a part of what follows
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    bom = {"bomFormat": "CycloneDX", "specVersion": "1.5",
           "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'kvloupe-{version}-{seconds}')}", "version": 1,
           "metadata": {"timestamp": when, "component": own, "tools": [{"name": "scripts/wheel.sh"}]},
           "components": parts,
           "dependencies": [{"ref": OWN, "dependsOn": [str(part["bom-ref"]) for part in parts]}]}
    (sboms / "kvloupe.cdx.json").write_text(json.dumps(bom, indent=1) + "\n", encoding="utf-8")
    licences = info / "licenses"
    (licences / "debian").mkdir(parents=True, exist_ok=True)
    (licences / "LICENSE").write_bytes((source / "LICENSE").read_bytes())
    common: set[str] = set()
    lines = []
    for package in sorted(files):
        text = copyright_of(package).read_text(encoding="utf-8", errors="replace")
        common |= common_licences_in(text)
        (licences / "debian" / f"{package}.txt").write_text(text, encoding="utf-8")
        own_version, origin, origin_version = version_of(package)
        lines.append(f"{package} {own_version}: source package {origin} {origin_version}")
    for name in sorted(common):
        text = (Path("/usr/share/common-licenses") / name).read_text(encoding="utf-8", errors="replace")
        (licences / "debian" / f"common-{name}.txt").write_text(text, encoding="utf-8")
    (licences / "README.txt").write_text(
        "kvloupe is under the MIT licence (LICENSE).\n\nThe wheel carries libraries and fonts of Debian 12, as Debian built "
        "them, but for the names of\nlibraries and the places where they look for others. libtorch names fewer libraries than "
        "Debian's,\nand a library of eight functions that fail stands for libcurl. Each package's copyright and licences\nare in "
        "debian/PACKAGE.txt; the texts that these name in /usr/share/common-licenses are in\ndebian/common-NAME.txt. The "
        "source of each is the Debian source package below, kept at\nhttps://snapshot.debian.org for every version. You may "
        "put other versions of the libraries in\nkvloupe.libs under the same names.\n\nThe list of "
        "contents (sboms/kvloupe.cdx.json) names for each package all licences that its copyright\nfile names, those of its "
        "tests and build scripts, too, which are not in the wheel.\n\n" + "\n".join(lines) + "\n",
        encoding="utf-8")
