"""MkDocs hooks: links to files of the repository, and pages that are made from the code."""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "pages"
REPOSITORY = "https://github.com/paceline-rl/paceline"
IMAGE = re.compile(r"(!\[[^\]]*\]\()((?:\.\./)+[^)#\s]*)(\))")
LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]*)((?:#[^)\s]*)?\))")

sys.path.insert(0, str(ROOT / "docs"))
import header  # noqa: E402
from mkdocs.structure.files import File  # noqa: E402

log = logging.getLogger("mkdocs.hooks.paceline")


@functools.cache
def described() -> dict[str, str]:
    """The pages that come from the package, which is installed elsewhere: PACELINE_PYTHON is the interpreter that has it."""
    python = os.environ.get("PACELINE_PYTHON", "python3")
    done = subprocess.run([python, ROOT / "docs" / "describe.py"], capture_output=True, text=True)
    if done.returncode:
        log.warning("%s docs/describe.py failed: %s", python, done.stderr.strip()[-500:])
        return {}
    return dict(json.loads(done.stdout))


def on_files(files, config):
    """Images of the repository that pages show are part of the site."""
    for page in files.documentation_pages():
        for _, link, _ in IMAGE.findall(Path(page.abs_src_path).read_text()):
            target = Path(page.abs_src_path).parent.joinpath(link).resolve()
            name = f"assets/{target.name}"
            if not target.is_relative_to(PAGES) and files.get_file_from_path(name) is None:
                files.append(File.generated(config, name, abs_src_path=str(target)))
    return files


def on_post_page(output, page, config):
    """Names that the theme leaves out, for readers of screens."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def on_page_markdown(markdown, page, config, files):
    name = page.file.src_uri
    if name == "reference/header.md":
        markdown += "\n\n" + header.page((ROOT / "include" / "paceline.h").read_text())
    elif name in ("reference/command-line.md", "reference/settings.md"):
        markdown += "\n\n" + described().get(name, "")
    markdown = IMAGE.sub(functools.partial(image, name), markdown)
    return LINK.sub(functools.partial(absolute, name), markdown)


def image(name: str, match: re.Match[str]) -> str:
    """An image of the repository where on_files has put it."""
    target = (PAGES / name).parent.joinpath(match[2]).resolve()
    up = "../" * name.count("/")
    return match[0] if target.is_relative_to(PAGES) else f"{match[1]}{up}assets/{target.name}{match[3]}"


def absolute(name: str, match: re.Match[str]) -> str:
    """A link that leaves the pages' folder as one to the repository; in the text it is relative, for readers of a code host."""
    target = (PAGES / name).parent.joinpath(match[2]).resolve()
    if target.is_relative_to(PAGES):
        return match[0]
    if not target.exists():
        log.warning("%s: the link %s leads to no file", name, match[2])
    kind = "tree" if target.is_dir() else "blob"
    return f"{match[1]}{REPOSITORY}/{kind}/main/{target.relative_to(ROOT)}{match[3]}"
