"""The wheel with the programs in it, from a pure wheel of the package and a build (scripts/wheel.sh calls this).

    make.py PURE_WHEEL BUILD_FOLDER WORK_FOLDER OUT_FOLDER [ENGINE_LIBRARY]

In the wheel:
    kvloupe/bin            the programs
    kvloupe/share/kvloupe  demo model, prompts, lessons, studies, fonts: the same layout as below /usr
    kvloupe/lib            libkvloupe_engine.so, if it is given; its headers are in kvloupe/include
    kvloupe.libs           the libraries that they need, each with a hash in its name (auditwheel)
    kvloupe.libs/missing   libraries of a desktop (X11, OpenGL, GLib), used where the machine has none
"""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from contents import write_contents
from elf import is_elf, library, needed, symbols, tool
from pack import pack

PLATFORM = "manylinux_2_36_x86_64"  # Debian 12's C library, 2.36, and later ones
LARGEST = 100_000_000

# libtorch names 24 libraries of which it uses nothing (readers of images, films and databases); with what they need in
# turn they are 248 libraries of 300 MB. That it uses nothing is checked. OpenBLAS holds what the other two have.
UNUSED_BY_TORCH = re.compile(r"lib(opencv_\w+|avcodec|avformat|avutil|swscale|swresample|lmdb|leveldb|snappy|zmq|numa|zstd"
                             r"|OpenCL)\.so\.")
IN_OPENBLAS = ("libblas.so.3", "liblapack.so.3")
OPENBLAS = "libopenblas.so.0"

# Of a desktop. Its own are used where it has them, because its driver of OpenGL uses the same. A server has none, and
# the programs, which draw figures without them, would not start.
OF_DESKTOP = ["libX11.so.6", "libXext.so.6", "libXrender.so.1", "libxcb.so.1", "libxcb-render.so.0", "libxcb-shm.so.0",
              "libXau.so.6", "libXdmcp.so.6", "libbsd.so.0", "libmd.so.0", "libOpenGL.so.0", "libGLdispatch.so.0",
              "libglib-2.0.so.0", "libpcre2-8.so.0", "libz.so.1", "libexpat.so.1"]
SYSTEM_FOLDERS = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"]

# Latin, symbols, and the window's.
FONTS = ["opentype/inter/Inter-Regular.otf", "opentype/inter/Inter-Bold.otf", "opentype/inter/Inter-SemiBold.otf",
         "opentype/inter/Inter-Italic.otf", "truetype/jetbrains-mono/JetBrainsMono-Regular.ttf",
         "truetype/dejavu/DejaVuSans.ttf", "truetype/dejavu/DejaVuSans-Bold.ttf",
         # Chinese, Japanese, Korean
         "truetype/droid/DroidSansFallbackFull.ttf"]


def say(text: str) -> None:
    print(f"wheel: {text}", flush=True)


def prepare_libraries(folder: Path) -> None:
    """The libraries that are in the wheel otherwise than on the system."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    torch = folder / "libtorch_cpu.so.1.13"
    shutil.copy(library(torch.name), torch)
    taken, _ = symbols(torch)
    words: list[str] = []
    for name in needed(torch):
        if UNUSED_BY_TORCH.match(name):
            used = taken & symbols(library(name))[1]
            if used:
                raise SystemExit(f"wheel: this libtorch uses {name} ({sorted(used)[0]}); it must stay in the wheel: change "
                                 "UNUSED_BY_TORCH in scripts/wheel/make.py")
            words += ["--remove-needed", name]
        elif name in IN_OPENBLAS:
            lost = (taken & symbols(library(name))[1]) - symbols(library(OPENBLAS))[1]
            if lost:
                raise SystemExit(f"wheel: {OPENBLAS} has no {sorted(lost)[0]}, which libtorch takes from {name}; change "
                                 "IN_OPENBLAS in scripts/wheel/make.py")
            words += ["--remove-needed", name]
    tool("patchelf", *words, "--add-needed", OPENBLAS, torch)
    curl = folder / "libcurl.so.4"
    names = folder / "curl.map"
    names.write_text("CURL_OPENSSL_4 { global: curl_*; local: *; };\n")
    tool("gcc", "-O2", "-shared", "-fPIC", "-s", f"-Wl,-soname,{curl.name}", f"-Wl,--version-script={names}",
         Path(__file__).parent / "no_curl.c", "-o", curl)
    lost = {name for name in symbols(library("libhdf5_serial.so.103"))[0] if "CURL" in name} - symbols(curl)[1]
    if lost:
        raise SystemExit(f"wheel: HDF5 uses {sorted(lost)[0]}, which scripts/wheel/no_curl.c lacks; add it")


def _characters(font: Path) -> set[int]:
    found: set[int] = set()
    for part in tool("fc-query", "--index", "0", "--format", "%{charset}", font).split():
        first, _, last = part.partition("-")
        found.update(range(int(first, 16), int(last or first, 16) + 1))
    return found


def chosen_fonts() -> list[Path]:
    """Those above, and of Noto's families each that has characters which no font before it has."""
    root = Path("/usr/share/fonts")
    chosen = [root / name for name in FONTS]
    for font in chosen:
        if not font.is_file():
            raise SystemExit(f"wheel: the font {font} is not installed; scripts/setup.sh installs what kvloupe needs")
    known = set().union(*map(_characters, chosen))
    # Without the two largest of scripts that no tokenizer spells.
    noto = [font for font in (root / "truetype/noto").glob("Noto*-Regular.ttf")
            if not re.search("SignWriting|Tangut", font.name)]
    # Sans before others; long names are variants (NotoSansTifinaghAir) of short ones.
    for font in sorted(noto, key=lambda one: ("Sans" not in one.name, len(one.name), one.name)):
        new = _characters(font) - known
        if new:
            chosen.append(font)
            known |= new
    return chosen


def stage(pure: Path, build: Path, engine: Path | None, source: Path, folder: Path) -> list[Path]:
    """The wheel's files without their libraries; the fonts' places on this system."""
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(pure) as archive:
        archive.extractall(folder)
    package = folder / "kvloupe"
    (package / "bin").mkdir()
    for name in ("kvloupe", "kvloupe-capture"):
        program = build / "wheel" / "bin" / name
        if not program.is_file():
            raise SystemExit(f"wheel: {program} is missing; scripts/wheel.sh builds it")
        shutil.copy(program, package / "bin")
    if engine is not None:
        (package / "lib").mkdir()
        tool("strip", "--strip-unneeded", "-o", package / "lib" / engine.name, engine)
        (package / "include/kvloupe").mkdir(parents=True)
        for header in ("engine/kvloupe_engine.h", "plugin/kvloupe/policy_plugin.h"):
            shutil.copy(source / "analysis" / header, package / "include/kvloupe")
    share = package / "share" / "kvloupe"
    shutil.copytree(source / "assets", share, ignore=shutil.ignore_patterns("desktop", "results", "__pycache__"))
    (share / "notebooks").mkdir()
    for notebook in (source / "docs").glob("*.ipynb"):
        shutil.copy(notebook, share / "notebooks")
    fonts = chosen_fonts()
    (share / "fonts").mkdir()
    for font in fonts:
        shutil.copy(font, share / "fonts")
    shutil.copy(Path(__file__).parent / "_kvloupe_programs.py", folder)
    info = next(folder.glob("*.dist-info"))
    (info / "entry_points.txt").write_text("[console_scripts]\nkvloupe = _kvloupe_programs:kvloupe\n"
                                           "kvloupe-capture = _kvloupe_programs:kvloupe_capture\n")
    (info / "top_level.txt").write_text("_kvloupe_programs\nkvloupe\n")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: scripts/wheel.sh\nRoot-Is-Purelib: false\n"
                                "Tag: py3-none-linux_x86_64\n")
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() or is_elf(path) else 0o644)
    return fonts


def repair(staged: Path, prepared: Path, work: Path, seconds: int) -> Path:
    """auditwheel adds the libraries and checks the platform; the folder of what it made. It allows a wheel X11, GLib and
    OpenGL of the machine; what these need in turn is in the wheel, but comes after the machine's (add_desktop), so
    `auditwheel show` will not know the finished wheel as one of this platform."""
    info = next(staged.glob("*.dist-info")).name.removesuffix(".dist-info")
    plain = work / f"{info}-py3-none-linux_x86_64.whl"
    pack(staged, plain, seconds, level=1)
    out = work / "repaired"
    shutil.rmtree(out, ignore_errors=True)
    # Ours before the system's. Torch's own libraries are in a folder that the build names.
    environment = {**os.environ, "LD_LIBRARY_PATH": str(prepared), "SOURCE_DATE_EPOCH": str(seconds)}
    words = ["auditwheel", "repair", "--plat", PLATFORM, "--only-plat", "--zip-compression-level", "1",
             "--wheel-dir", str(out)]
    for name in OF_DESKTOP:
        if name != "libpcre2-8.so.0":  # kvloupe-capture reads patterns with its own
            words += ["--exclude", name]
    done = subprocess.run([*words, str(plain)], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit("wheel: auditwheel failed: " + "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:]))
    made = next(out.glob("*.whl"))
    folder = work / "finished"
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(made) as archive:
        archive.extractall(folder)
    return folder


def add_desktop(folder: Path) -> None:
    """Libraries for machines that lack them: looked for in the system's folders first, then here."""
    missing = folder / "kvloupe.libs" / "missing"
    missing.mkdir()
    for name in OF_DESKTOP:
        shutil.copy(library(name), missing / name)
    for path in folder.rglob("*"):
        if not path.is_file() or not is_elf(path):
            path.chmod(0o755 if path.is_dir() else 0o644)
            continue
        libraries = Path("$ORIGIN") / os.path.relpath(missing.parent, path.parent)
        # Libraries with a hash in their names are in the first folder only.
        places = [str(libraries), *SYSTEM_FOLDERS, f"{libraries}/missing"]
        path.chmod(0o755)
        tool("patchelf", "--set-rpath", ":".join(places), path)
    for path in (folder / "kvloupe.libs").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def main() -> None:
    pure, build, work, out, *engine = (Path(word).resolve() for word in sys.argv[1:])
    source = Path(__file__).resolve().parents[2]
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or tool("git", "-C", source, "log", "-1", "--format=%ct"))
    say("libraries: what libtorch names and does not use is left out")
    prepare_libraries(work / "prepared")
    say("files of the package, programs, models, fonts")
    fonts = stage(pure, build, engine[0] if engine else None, source, work / "staged")
    say("auditwheel adds the libraries")
    folder = repair(work / "staged", work / "prepared", work, seconds)
    add_desktop(folder)
    say("licences and the list of contents")
    write_contents(folder, fonts, source, seconds)
    info = next(folder.glob("*.dist-info")).name.removesuffix(".dist-info")
    wheel = out / f"{info}-py3-none-{PLATFORM}.whl"
    say("packing (about a minute)")
    pack(folder, wheel, seconds)
    size = wheel.stat().st_size
    say(f"{wheel}: {size / 1e6:.1f} MB")
    if size > LARGEST:
        raise SystemExit(f"wheel: it has {size} bytes, more than {LARGEST}: the Python Package Index takes no larger file. "
                         f"The largest files are in {folder}")


main()
