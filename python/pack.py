"""A wheel of the extension that cargo has compiled in the workspace: python pack.py SDIST LIBRARY FOLDER

Everything but the extension comes from the unpacked source package SDIST, and the source package is checked on the way: cargo's list
of what went into LIBRARY (beside it, with the ending .d) names every source file, and each must be in SDIST, byte for byte. So
what is tested is what the source package would compile to, without compiling it twice. `cargo xtask peers` compiles it for real.
"""

import shutil
import subprocess
import sys
from pathlib import Path

WHEEL = """Wheel-Version: 1.0
Generator: pack.py
Root-Is-Purelib: false
Tag: py3-none-any
"""


def sources(library: Path, root: Path) -> list[Path]:
    """What of the workspace was compiled into the library, relative to the root."""
    listed = library.with_suffix(".d").read_text().split(": ", 1)[1].replace("\\ ", "\0").split()
    paths = [Path(name.replace("\0", " ")) for name in listed]
    return [path.relative_to(root) for path in paths if path.is_relative_to(root)]


def check_complete(sdist: Path, compiled: list[Path], root: Path) -> None:
    """Ends the program if a file is missing from the source package or differs there."""
    wrong = [path for path in compiled if not same(sdist / path, root / path)]
    if len(compiled) < 100:
        sys.exit(f"pack.py: only {len(compiled)} sources are listed; was the library compiled elsewhere?")
    if wrong:
        sys.exit(f"pack.py: not in the source package as they are here: {', '.join(map(str, wrong))}")


def same(one: Path, other: Path) -> bool:
    return one.is_file() and one.read_bytes() == other.read_bytes()


def main() -> None:
    sdist, library, folder = (Path(argument).resolve() for argument in sys.argv[1:])
    root = Path(__file__).resolve().parent.parent
    compiled = sources(library, root)
    check_complete(sdist, compiled, root)
    version = sdist.name.removeprefix("optfilter-")
    about = folder / "tree" / f"optfilter-{version}.dist-info"
    about.mkdir(parents=True)
    shutil.copytree(sdist / "python" / "optfilter", folder / "tree" / "optfilter", dirs_exist_ok=True)
    shutil.copy(library, folder / "tree" / "optfilter" / "_core.abi3.so")
    shutil.copy(sdist / "PKG-INFO", about / "METADATA")
    (about / "WHEEL").write_text(WHEEL)
    subprocess.run([sys.executable, "-m", "wheel", "pack", str(folder / "tree"), "-d", str(folder)], check=True)
    print(f"{len(compiled)} compiled sources are in the source package")


if __name__ == "__main__":
    main()
