"""The pages point at what there is: their links, the headings behind a #, and the files that they name."""

import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import version_table
from controlplane.serving import EMULATED
from dra_operator.api.versions import VERSIONS
from dra_operator.cli.commands import app
from dra_operator.cli.kubectl.commands import app as kubectl_dra

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path for where in ("*.md", "docs/*.md", "docs/*/*.md", "[a-z]*/README.md") for path in ROOT.glob(where)
)
BASES = (ROOT, ROOT / "operator" / "dra_operator")
"""What paths in pages are relative to: `docs/pods.md`, and `allocator/search/state.py` for a module of the package."""
COMMANDS = app.list_commands(None)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def prose(page: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the names of the headings of a page, as links have them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@each_page
def test_each_link_leads_somewhere(page):
    """The file of a link is there, and so is the heading that it names."""
    lost = []
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose(page)):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)

    assert lost == []


@each_page
def test_each_module_that_a_page_names_is_there(page):
    """A file of Python in backticks, with its folder, is one of the repository or of the package."""
    named = re.findall(r"`([\w.*-]+/[\w/.*-]+\.py)`", prose(page))

    assert [name for name in named if not any(any(base.glob(name)) for base in BASES)] == []


@each_page
def test_each_name_is_in_the_module_that_a_page_says(page):
    """`name` in `folder/module.py` is there."""
    named = re.findall(r"`(\w+)` in `([\w/]+\.py)`", prose(page))

    lost = [
        (name, module)
        for name, module in named
        if not any(
            re.search(rf"\b{name}\b", found.read_text()) for base in BASES for found in base.glob(module)
        )
    ]
    assert lost == []


@each_page
def test_each_command_that_a_page_names_is_there(page):
    """A command of the operator and a target of make, in backticks or in a block of code, are what the page says."""
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)

    assert set(re.findall(r"(?:^|`|bin/)dra-operator ([a-z]+)", text, re.MULTILINE)) <= set(COMMANDS)
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)) <= set(targets)


@each_page
def test_each_option_of_kubectl_dra_that_a_page_gives_is_there(page):
    """A verb of `kubectl dra` in backticks or in a block of code has each of the options behind it."""
    text = page.read_text(encoding="utf-8")
    wrong = []
    for verb, rest in re.findall(r"(?:^|`|\$ )kubectl[ -]dra ([a-z]+)([^`|\n]*)", text, re.MULTILINE):
        command = kubectl_dra.get_command(click.Context(kubectl_dra), verb)
        words = rest.split()
        if isinstance(command, click.Group) and words and words[0] in command.commands:
            command = command.commands[words[0]]
        # Pages also say which verbs are gone.
        known = {name for param in command.params for name in param.opts} if command else set()
        used = re.findall(r"(?<=\s)--?[a-z][\w-]*", rest)
        wrong += [f"{verb} {each}" for each in used if each not in {*known, "--help"}]
    assert wrong == []


@pytest.mark.parametrize(
    "line", re.findall(r"^\.venv/bin/(.+)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
)
def test_each_command_of_the_front_page_works_as_typed(line):
    """In a clone, after `make demo`, each has an answer and no error."""
    name, *arguments = shlex.split(line)
    program = Path(sys.executable).with_name(name)
    done = subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode in (0, 1)
    assert done.stdout
    assert "error" not in done.stderr


@pytest.mark.parametrize("page", ["docs/claims.md", "docs/classes.md"])
def test_each_manifest_that_a_page_shows_is_accepted(page):
    """Whoever copies a manifest from a page can apply it: `simulate` refuses what the API server refuses."""
    blocks = re.findall(
        r"^```yaml\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    result = CliRunner().invoke(app, ["simulate", "-f", "-"], input="---\n".join(blocks))

    assert blocks
    assert "error:" not in result.stderr
    assert result.exit_code != 2


def test_each_dependency_has_its_reason():
    """Whoever wonders why a package is needed finds its row, and no row is of a package that is not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    section = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8").partition("## Dependencies")[2]
    rows = re.findall(r"^\| ([\w, -]+) \|", section.partition("\n## ")[0], re.MULTILINE)
    _, *named = [name for row in rows for name in row.split(", ")]

    extras = project["optional-dependencies"].values()
    needed = [*project["dependencies"], *(each for extra in extras for each in extra)]
    assert sorted(named) == sorted(re.match(r"[\w-]+", each)[0] for each in needed)


def test_each_file_of_a_feature_has_its_row():
    """Whoever looks for a feature finds its example, and each row leads to one."""
    page = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")

    for folder in ("features", "1.37"):
        table = page.partition(f"| file in `{folder}/` |")[2].partition("\n\n")[0]
        rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        named = [name for row in rows for name in re.findall(r"`([\w-]+)`", row)]
        assert sorted(named) == sorted(path.stem for path in (ROOT / "examples" / folder).glob("*.yaml"))


@pytest.mark.parametrize("command", [*COMMANDS, "cel check", "cel eval"])
def test_each_option_is_on_a_page(command):
    """An option that `--help` lists, in one of its spellings, is on the page of commands or that of settings."""
    pages = "".join(
        (ROOT / "docs" / name).read_text(encoding="utf-8")
        for name in ("cli.md", "settings.md", "tasks/simulate.md")
    )
    listed = re.findall(
        r"^ +((?:-\w, )?--[\w-]+)", CliRunner().invoke(app, [*command.split(), "--help"]).output, re.MULTILINE
    )

    assert listed
    assert [
        option
        for option in listed
        if not any(re.search(rf"(?<![\w-]){name}(?![\w-])", pages) for name in option.split(", "))
    ] == []


def test_front_page_and_changelog_name_the_same_ratio():
    """How the time of a claim compares with that of Kubernetes' own code is measured once (docs/performance.md)."""
    ratio = re.compile(r"takes\s+between (an? \S+ and an? \S+) of the time")
    told = [
        ratio.findall((ROOT / name).read_text(encoding="utf-8")) for name in ("README.md", "CHANGELOG.md")
    ]

    assert len(told[0]) == 1
    assert told[0] == told[1]


def test_the_page_of_versions_is_up_to_date():
    """It is generated: `PYTHONPATH=tests .venv/bin/python -m version_table > docs/versions.md`."""
    assert (ROOT / "docs/versions.md").read_text() == version_table.page()


def test_pages_of_reference_are_up_to_date():
    """Fields of our kinds and options of `kubectl dra` are those of the code: `make reference` writes them."""
    made = runpy.run_path(str(ROOT / ".ci" / "reference.py"))["pages"]()

    assert {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in made} == made


def test_no_version_is_left_out_of_it():
    """It goes from the oldest API server of the tests to the newest rules."""
    assert {*EMULATED, *VERSIONS} <= {*version_table.SHOWN}
    assert (version_table.SHOWN[0], version_table.SHOWN[-1]) == (EMULATED[0], VERSIONS[-1])
