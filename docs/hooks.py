"""MkDocs hooks: links to files of the repository, and pages made from the code."""

from __future__ import annotations

import logging
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "pages"
REPOSITORY = "https://github.com/paceline-rl/paceline"
LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)((?:#[^)\s]*)?\))")

log = logging.getLogger("mkdocs.hooks.paceline")


def on_page_markdown(markdown, page, config, files):
    """Points links that leave the pages' folder at the repository; they are relative in the text, for readers of a code host."""

    def absolute(match):
        target = (PAGES / page.file.src_uri).parent.joinpath(match[2]).resolve()
        if target.is_relative_to(PAGES):
            return match[0]
        if not target.exists():
            log.warning("%s: the link %s leads to no file", page.file.src_uri, match[2])
        kind = "tree" if target.is_dir() else "blob"
        return f"{match[1]}{REPOSITORY}/{kind}/main/{target.relative_to(ROOT)}{match[3]}"

    return LINK.sub(absolute, markdown)
