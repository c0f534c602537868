"""Executes the code blocks of tutorial.md in order, as one program, and keeps its pictures.

A block may be followed by a block marked ``text``: what the code must print, compared word for word.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import pathlib
import re
import sys

os.environ.setdefault("MPLBACKEND", "Agg")


def main() -> None:
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", type=pathlib.Path, default=here / "figures")
    parser.add_argument("--write", action="store_true", help="write what was printed into the tutorial")
    arguments = parser.parse_args()
    arguments.figures.mkdir(parents=True, exist_ok=True)
    path = here / "tutorial.md"
    text = path.read_text(encoding="utf-8")
    space: dict[str, object] = {"FIGURES": arguments.figures}
    out, last, count = [], 0, 0
    pattern = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.S)
    for match in pattern.finditer(text):
        code, expected = match.groups()
        line = text[: match.start()].count("\n") + 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + code, str(path), "exec"), space)
        got = printed.getvalue()
        if not arguments.write and got != (expected or ""):
            sys.exit(f"{path.name}:{line}: printed\n{got}\ninstead of\n{expected or ''}")
        out.append(text[last : match.start()] + f"```python\n{code}```\n")
        if got:
            out.append(f"\n```text\n{got}```\n")
        last, count = match.end(), count + 1
    if arguments.write:
        path.write_text("".join(out) + text[last:], encoding="utf-8")
    print(f"{path.name}: {count} blocks ran as printed")


if __name__ == "__main__":
    main()
