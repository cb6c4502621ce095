"""A Griffe extension: lines `name: text` of a docstring, with what is indented below them, become a list."""

from __future__ import annotations

import re
from typing import Any

import griffe

NAMED = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*(?: \([^)]*\))?): (\S.*)")


class Docstrings(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)


def listed(text: str) -> str:
    out: list[str] = []
    item = False
    for line in text.split("\n"):
        if match := NAMED.fullmatch(line):
            out += [] if item else [""]
            out.append(f"- `{match[1]}`: {match[2]}")
            item = True
        elif item and line.startswith("    "):
            out.append("    " + line.strip())
        else:
            out += [""] if item and line.strip() else []
            out.append(line)
            item = item and not line.strip()
    return "\n".join(out)
