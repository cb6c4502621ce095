"""Checks that the code of README.md and of docs/pages runs and that the names in it exist.

The Python blocks of a page are one program, run in order from a file in an empty folder. C and C++
blocks up to one with a main function are one program, compiled against the installed package and
run before the Python blocks. From sh blocks the `paceline` commands and the compilers are run; make
targets, files of the repository and pip extras only have to exist. An HTML comment above a block
changes its test:

    <!-- test: 1_000_000 -> 2_000 -->       replace text, such as a number of steps; one pair a comment
    <!-- test: needs matplotlib -->         skip if the module is missing; Atari games need a ROM
    <!-- test: library libname.so -->       build a C block without main as a shared library
    <!-- test: first: envs = ... -->        insert lines of Python before the block
    <!-- test: not run: reason -->          do not run the block; NOT_RUN is the number of these blocks
"""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import paceline
from paceline import cli

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "pages"
if not DOCS.is_dir():
    pytest.skip("no checkout around the tests", allow_module_level=True)

PAGES = sorted(DOCS.rglob("*.md"))
NOT_RUN = 18
CHEAP = {"README.md", "index.md"}  # make test-all runs the other pages
LANGUAGES = {"python", "c", "cpp", "sh"}
BLOCK = re.compile(r"((?:^<!-- test: (?:(?!-->).)*-->\n+)*)^```(\w+)[^\n]*\n(.*?)^```$", re.M | re.S)
COMMENT = re.compile(r"<!-- test: (.*?) ?-->", re.S)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
INCLUDE = Path(paceline.__file__).parent / "include"
LIBRARY = Path(paceline.__file__).parent / "lib"


class Block:
    """A fenced block, with the changes of its comments."""

    def __init__(self, comments, language, text):
        self.language, self.text = language, text
        self.needs = ["roms"] if re.search(r"\b(Pong|Breakout|pong)\b", text) else []
        self.first, self.library, self.reason = "", None, None
        for comment in COMMENT.findall(comments):
            if match := re.fullmatch(r"not run: (.+)", comment, re.S):
                self.reason = match[1]
            elif match := re.fullmatch(r"needs (.+)", comment):
                self.needs.append(match[1])
            elif match := re.fullmatch(r"library (\S+)", comment):
                self.library = match[1]
            elif match := re.fullmatch(r"first:\s(.*)", comment, re.S):
                self.first += match[1] + "\n"
            elif match := re.fullmatch(r"(.+?) -> (.*)", comment):
                assert match[1] in self.text, f"{match[1]!r} of a test comment is not in its block"
                self.text = self.text.replace(match[1], match[2])
            else:
                raise AssertionError(f"<!-- test: {comment} -->: unknown")


def blocks(page):
    return [Block(*match) for match in BLOCK.findall(page.read_text())]


def name(page):
    return str(page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT))


def have_roms():
    try:
        paceline.make_vec("Pong").close()
    except paceline.PacelineError:
        return False
    return True


def missing(needs):
    for need in needs:
        if not (have_roms() if need == "roms" else importlib.util.find_spec(need)):
            return need
    return None


def environment():
    scripts = sysconfig.get_path("scripts")
    return os.environ | {"PATH": os.pathsep.join([scripts, os.environ["PATH"]]), "MPLBACKEND": "Agg"}


def execute(command, folder):
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}: status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def compile_and_run(found, folder):
    """Compiles the C and C++ blocks. Runs programs, and keeps libraries in the folder."""
    text = ""
    for i, block in enumerate(found):
        if block.language not in ("c", "cpp") or block.reason:
            continue
        text += block.text
        if "int main(" not in block.text and not block.library:
            continue
        compiler, standard = ("cc", "-std=c11") if block.language == "c" else ("c++", "-std=c++17")
        source, out = folder / f"block{i}.{block.language}", folder / (block.library or f"block{i}")
        source.write_text(text)
        text = ""
        library = next(LIBRARY.glob("libpaceline.so*"))
        link = ["-shared", "-fPIC"] if block.library else [library, f"-Wl,-rpath,{LIBRARY}", "-lm"]
        execute([compiler, standard, "-Wall", "-Werror", f"-I{INCLUDE}", source, *link, "-o", out], folder)
        if not block.library:
            execute([out], folder)
    assert not text, "the last C block has no main function"


def run_python(found, folder):
    program = ""
    for block in found:
        if block.language == "python" and not block.reason and not missing(block.needs):
            program += block.first + block.text
    if program:
        (folder / "page.py").write_text(program)
        execute([sys.executable, "-W", "error::ResourceWarning", "page.py"], folder)


TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M))
EXTRAS = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2], re.M))


def looked_up(line):
    """Checks a command that is not run. Returns whether the command is of this kind."""
    words = shlex.split(line, comments=True)
    while words and re.fullmatch(r"[A-Z0-9_]+=\S*", words[0]):
        words.pop(0)
    if not words:
        return True
    if words[0] == "make":
        for word in words[1:]:
            assert "=" in word or word.startswith("-") or word in TARGETS, f"{line}: there is no target {word}"
        return True
    if words[:2] in (["pip", "install"], ["pipx", "install"]):
        for extras in re.findall(r"paceline\[([\w,]+)\]", line):
            assert set(extras.split(",")) <= EXTRAS, f"{line}: there is no extra {extras}"
        return True
    if words[0] in ("python", "python3") and words[1].endswith(".py"):
        assert (ROOT / words[1]).is_file(), f"{line}: there is no such file"
        return True
    return words[0] in ("git", "cd", "apt-get", "sudo") or words[0].startswith("$")


def run_shell(found, folder):
    for block in found:
        if block.language == "sh" and block.reason:
            for line in block.text.splitlines():
                if line.startswith("paceline "):
                    cli._parser().parse_args(shlex.split(line, comments=True)[1:])
        if block.language != "sh" or block.reason:
            continue
        lines = block.text.replace("\\\n", " ").splitlines()
        left = [line for line in lines if not looked_up(line)]
        if left and not missing(block.needs):
            execute(["sh", "-euc", "\n".join(left)], folder)


@pytest.mark.parametrize(
    "page", [pytest.param(p, id=name(p), marks=[] if name(p) in CHEAP else pytest.mark.slow) for p in (ROOT / "README.md", *PAGES)]
)
def test_code_runs(page, tmp_path):
    found = blocks(page)
    compile_and_run(found, tmp_path)
    run_python(found, tmp_path)
    run_shell(found, tmp_path)


def test_readme_is_short_and_its_tests_exist():
    text = (ROOT / "README.md").read_text()
    assert len(text.encode()) <= 8000
    _, promised = text.split("## What is promised\n")
    named = re.findall(r"`(?:python/tests/)?([\w/]+(?:\.py)?)`", promised.split("\n## ")[0])
    files = [*ROOT.glob("core/**/*_test.go"), *ROOT.glob("python/tests/**/test_*.py")]
    defined = "\n".join(path.read_text() for path in files)
    missing = [n for n in named if not (re.search(rf"^(?:func|def) {n}\(", defined, re.M) or (ROOT / "python/tests" / n).is_file())]
    assert len(named) >= 8 and not missing, missing


def test_every_block_has_a_language_and_few_are_not_run():
    reasons = []
    for page in PAGES:
        text = page.read_text()
        fences = re.findall(r"^```(\w*)", text, re.M)
        opened = fences[::2]
        assert all(opened) and not any(fences[1::2]), f"{name(page)}: a block without a language"
        assert set(opened) <= LANGUAGES | {"text", "json", "console", "cmake"}, f"{name(page)}: {set(opened)}"
        reasons += [f"{name(page)}: {block.reason}" for block in blocks(page) if block.reason]
    assert len(reasons) == NOT_RUN, "\n".join(["blocks that are not run:", *reasons])


def test_a_record_that_is_behind_its_runs_is_found(report, tmp_path):
    for name in report.OF_RUNS:
        record = json.loads((report.RECORDS / f"{name}.json").read_text())
        record["report"]["entries"] = record["report"]["entries"][1:]
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    assert [path.stem for path in report.behind(tmp_path)] == [*report.OF_RUNS]
    shutil.copy(report.RECORDS / "dopamine.json", tmp_path)
    assert "dopamine" not in [path.stem for path in report.behind(tmp_path)]


@pytest.fixture
def report(monkeypatch):
    """docs/report.py."""
    for folder in ("docs", "python/benchmarks"):
        monkeypatch.syspath_prepend(ROOT / folder)
    return importlib.import_module("report")


def test_benchmark_tables_equal_their_files():
    execute([sys.executable, ROOT / "docs" / "report.py", "check"], ROOT)
    chart = (DOCS / "assets" / "speed.svg").read_text()
    labels = re.findall(r'^    \("(.*?)", "\w+", "', (ROOT / "docs" / "report_chart.py").read_text(), re.M)
    assert len(labels) == 8 and all(f">{label}<" in chart for label in labels)


def test_quick_benchmarks_begin_runs(report):
    assert "--minutes 0 " in " ".join(command for command, _ in report.COMMANDS.values())
    for command, short in report.COMMANDS.values():
        minutes = [*re.findall(r"--minutes (\S+)", command), *re.findall(r"--minutes (\S+)", short)]
        assert minutes[-1:] != ["0"], f"{command} {short}"


def test_environment_variables_are_documented():
    said = (DOCS / "reference" / "environment-variables.md").read_text()
    _, text = (ROOT / "include" / "paceline.h").read_text().split("* Environment variables.")
    variables = set(re.findall(r"\b(?:PACELINE|ALE|GO)_?[A-Z_]{2,}\b", text.split("* Growth.")[0]))
    assert len(variables) >= 7 and {v for v in variables if f"`{v}`" not in said} == set()


def anchors(page):
    """Returns the anchors that a code host makes from headings, and explicit anchors."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    made = [re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.M)]
    return {*made, *re.findall(r'id="([^"]+)"', text)}


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=name)
def test_links_have_targets(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    for link in filter(None, (a or b or c for a, b, c in LINK.findall(text))):
        if re.match(r"https?:|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)}: {link} leads to no file"
        if anchor and target.suffix == ".md" and target.parent.name != "reference":
            assert anchor in anchors(target), f"{name(page)}: {link}: there is no such heading"


# [`name`](path) `one`, `two`: the file at path defines one and two.
NAMED = re.compile(r"\[`[^`]+`\]\(([^)\s]+)\):? ((?:`[\w.]+`(?:, | and )?)+)")


def defined(identifier, text):
    word = re.escape(identifier.rsplit(".", 1)[-1])
    forms = (
        rf"^func (?:\([^)]*\) )?{word}[\[(]",
        rf"^(?:type|var|const|class|def) {word}\b",
        rf"^\s+\"?(?:def |class )?{word}\b",
        rf"^[\w ]+[ *]{word}\(",
        rf"^#define {word}\b",
        rf"^{word} = ",
    )
    return any(re.search(form, text, re.M) for form in forms)


@pytest.mark.parametrize("page", [DOCS / "architecture.md", *sorted((DOCS / "papers").glob("*.md"))], ids=name)
def test_named_code_exists(page):
    named = NAMED.findall(page.read_text())
    for path, identifiers in named:
        text = (page.parent / path).resolve().read_text()
        for identifier in re.findall(r"`([^`]+)`", identifiers):
            assert defined(identifier, text), f"{name(page)}: {path} has no {identifier}"
    assert named or page.name == "index.md", f"{name(page)} names no code"


def test_every_function_of_the_header_has_an_anchor():
    spec = importlib.util.spec_from_file_location("header", ROOT / "docs" / "header.py")
    header = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(header)
    text = (ROOT / "include" / "paceline.h").read_text()
    page = header.page(text)
    functions = set(re.findall(r"^PACELINE_API [^\n]*?\b(paceline_\w+)\(", text, re.M))
    assert len(functions) > 80 and {f for f in functions if f"{{#{f}}}" not in page and f'id="{f}"' not in page} == set()
