"""include/paceline.h as a page: its sections, and a heading with an anchor for each declaration."""

from __future__ import annotations

import html
import re

SECTION = re.compile(r"/\* -+ (\d+ .+?) \*/")
NAMES = [
    re.compile(p) for p in (r"\b(paceline_\w+)\(", r"^} (paceline_\w+);", r"^typedef struct (paceline_\w+) \w+;", r"^enum (paceline_\w+)")
]
DEFINE = re.compile(r"^#define (PACELINE_(?:ABI_)?VERSION)\b", re.M)
CONSTANT = re.compile(r"(?:^ +|\{ |, )(PACELINE_\w+) = ", re.M)
IDENTIFIER = re.compile(r"\b(?:paceline|PACELINE)_\w+")


def page(text: str) -> str:
    """The page's Markdown."""
    blocks = _blocks(text)
    anchors = {name: name for kind, body, _ in blocks if kind == "code" for name in _names(body)}
    for kind, body, _ in blocks:
        if kind == "code":
            anchors |= {constant: _names(body)[0] for constant in CONSTANT.findall(body)}
    out: list[str] = []
    for i, (kind, body, close) in enumerate(blocks):
        if kind == "section":
            number, title = body.split(" ", 1)
            out.append(f"## {number} {title[:1].upper()}{title[1:]}")
        elif kind == "comment":
            documents = close and i + 1 < len(blocks) and blocks[i + 1][0] == "code"
            if not documents:
                out.append(_prose(body, anchors))
        else:
            names = _names(body)
            more = "".join(f'<a id="{name}"></a>' for name in names[1:])
            out.append(f"### `{names[0]}` {{#{names[0]}}}\n\n{more}")
            out.append(f"```c\n{body}\n```")
            if i and blocks[i - 1][0] == "comment" and blocks[i - 1][2]:
                out.append(_prose(blocks[i - 1][1], anchors))
    return "\n\n".join(part for part in out if part)


def _blocks(text: str) -> list[tuple[str, str, bool]]:
    """(section | comment | code, its text, whether the next block follows without an empty line)."""
    blocks: list[tuple[str, str, bool]] = []
    for part in _parts(text):
        if match := SECTION.fullmatch(part):
            blocks.append(("section", match[1], False))
            continue
        if part.startswith("/*"):
            comment, rest = part.split("*/", 1)
            blocks.append(("comment", _strip(comment), bool(rest.strip())))
            part = rest.strip("\n")
        if part.strip() and _names(part):
            blocks.append(("code", part.strip("\n"), False))
    return blocks


def _parts(text: str) -> list[str]:
    """What stands between empty lines, where these are neither in a comment nor in braces."""
    text = re.sub(r"^#(?!define PACELINE_(ABI_)?VERSION)[^\n]*(\\\n[^\n]*)*\n", "", text, flags=re.M)  # the preprocessor's
    text = re.sub(r'^extern "C" \{\n|^\}\n', "", text, flags=re.M)
    text = re.sub(r"^(/\* -+ \d+ .+? \*/)$", r"\n\1\n", text, flags=re.M)
    parts: list[str] = []
    current: list[str] = []
    comment, depth = False, 0
    for line in text.split("\n"):
        if not line.strip() and not comment and depth == 0:
            if current:
                parts.append("\n".join(current))
            current = []
            continue
        # A comment begins another declaration.
        if line.startswith("/*") and current and not comment and depth == 0:
            parts.append("\n".join(current))
            current = []
        current.append(line)
        comment = line.rfind("/*") > line.rfind("*/") or (comment and "*/" not in line)
        depth += line.count("{") - line.count("}")
    return parts + ["\n".join(current)]


def _names(code: str) -> list[str]:
    """What a block declares, in the order of the text."""
    if defined := DEFINE.findall(code):
        return list(defined)
    names: list[str] = []
    for line in code.split("\n"):
        for pattern in NAMES:
            names += [name for name in pattern.findall(line) if name not in names and not line.startswith(" ")]
    return names


def _strip(comment: str) -> str:
    lines = comment.removeprefix("/*").split("\n")
    return "\n".join(re.sub(r"^ ?\*( |$)", "", line) if i else line.strip() for i, line in enumerate(lines)).strip("\n ")


def _prose(comment: str, anchors: dict[str, str]) -> str:
    """A comment as HTML: paragraphs, terms with their explanations, code."""
    out: list[str] = []
    for paragraph in re.split(r"\n\s*\n", comment):
        lines = paragraph.split("\n")
        if paragraph.isupper():
            out.append(f"## {paragraph.capitalize()}")
            continue
        if all(line.startswith("    ") for line in lines):
            out.append("```c\n" + "\n".join(line[4:] for line in lines) + "\n```")
            continue
        groups: list[list[str]] = [[]]
        for line in lines:
            if re.match(r"[A-Z][A-Za-z ]+\.  \S|  \w+  \S", line) and groups[-1]:
                groups.append([])
            groups[-1].append(line.strip())
        out += [f"<p>{_inline(' '.join(group), anchors)}</p>" for group in groups if any(group)]
    return "\n\n".join(out)


def _inline(text: str, anchors: dict[str, str]) -> str:
    text = html.escape(text.strip(), quote=False)
    text = re.sub(r"^([A-Z][A-Za-z ]+\.)  (?=\S)", r"<strong>\1</strong> ", text)
    text = re.sub(r"^(\w+)  (?=\S)", r"<code>\1</code>: ", text)

    def linked(match: re.Match[str]) -> str:
        name = match[0]
        code = f"<code>{name}</code>"
        return f'<a href="#{anchors[name]}">{code}</a>' if name in anchors else code

    return IDENTIFIER.sub(linked, text)
