"""The shape of the repository, as docs/architecture.md draws it."""

import ast
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "operator" / "dra_operator"
BRIDGE = ROOT / "operator" / "dra_bridge"
MODULES = sorted([*PACKAGE.rglob("*.py"), *BRIDGE.rglob("*.py")])
CODE = sorted(
    path for folder in (".ci", "bench", "operator", "tests") for path in (ROOT / folder).rglob("*.py")
)
MOST_LINES = 900


def test_operator_folder_is_no_package():
    """`operator/` has no `__init__.py`, which would take the place of the standard library's module."""
    assert [path.name for path in (ROOT / "operator").iterdir() if path.suffix == ".py"] == []


def test_import_operator_gives_the_standard_library():
    """`import operator` at the root of the repository is the standard library's."""
    answer = subprocess.run(
        [sys.executable, "-c", "import operator; print(operator.add(2, 3), operator.__file__)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout.startswith("5 ")
    assert str(ROOT) not in answer.stdout


@pytest.mark.parametrize("module", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_is_short_enough_to_read(module):
    """No module has more than 900 lines, be it of the package, of its tests or of the benchmarks."""
    lines = module.read_text(encoding="utf-8").count("\n")

    assert lines <= MOST_LINES


@pytest.mark.parametrize(
    "folder",
    sorted({path.parent for path in MODULES}),
    ids=lambda path: str(path.relative_to(PACKAGE.parent)),
)
def test_folder_says_what_it_is_for(folder):
    """Every folder of the package has an `__init__.py` that begins with a docstring."""
    assert (folder / "__init__.py").read_text(encoding="utf-8").startswith('"""')


@pytest.mark.parametrize(
    "folder",
    sorted(path.parent for path in PACKAGE.glob("*/**/__init__.py")),
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_folder_says_which_rules_are_where(folder):
    """The docstring of a folder names in backticks what is in it, and nothing else; or it imports all of that."""
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    named = set(re.findall(r"`(\w+)`", ast.get_docstring(tree) or ""))
    imported = {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    modules = {path.parent if path.name == "__init__.py" else path for path in folder.glob("**/*.py")}
    stems = {path.stem for path in modules if path.parent == folder}

    assert named - imported == stems - imported - {"__main__"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """Build the wheel as `pip wheel` does, without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_wheel_holds_the_packages_alone(wheel):
    """The wheel installs `dra_operator` and `dra_bridge`, and nothing beside them."""
    tops = {name.partition("/")[0] for name in wheel.namelist()}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"dra_operator", "dra_bridge"}


def test_wheel_holds_every_module(wheel):
    """Each module of the package is in the wheel, with the marker of its types and what modules read beside them."""
    files = {*MODULES, PACKAGE / "py.typed", *PACKAGE.rglob("*.yaml"), *PACKAGE.rglob("*.json")}

    assert {str(path.relative_to(PACKAGE.parent)) for path in files} <= set(wheel.namelist())


def test_wheel_holds_the_licence(wheel):
    """The licence travels with the wheel."""
    (name,) = [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]

    assert b"Apache License" in wheel.read(name)


def test_library_works_from_the_wheel(wheel, tmp_path):
    """What the library reads beside its modules, tables and rules, is in the wheel."""
    wheel.extractall(tmp_path)
    code = (
        "import dra_operator as d; c = d.Cluster.load('examples/questions/cluster.yaml'); "
        "print(d.__file__, len(c.errors), c.lint().findings[0].rule)"
    )
    answer = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=ROOT,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout.split() == [str(tmp_path / "dra_operator" / "__init__.py"), "0", "MatchesNone"]


def test_an_installed_wheel_puts_the_plugin_on_the_path(wheel, tmp_path):
    """In a fresh environment, as that of `pipx install`, `kubectl-dra` and its completion are commands that answer."""
    venv.create(tmp_path / "fresh")
    python = tmp_path / "fresh" / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*install, wheel.filename], check=True)
    (packages,) = (tmp_path / "fresh").glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(
        f"{Path(pytest.__file__).parents[1]}\n"
    )  # of which each is at its place
    line = "kubectl-dra who pod/train-0 -n team-a --snapshot examples/questions/cluster.yaml"

    answer = subprocess.run(
        line.split(), cwd=ROOT, env={"PATH": f"{python.parent}"}, capture_output=True, text=True, check=False
    )

    assert answer.returncode == 0, answer.stderr
    assert "team-a/train-0" in answer.stdout
    assert {"dra-bridge", "dra-operator", "kubectl_complete-dra"} <= {
        each.name for each in python.parent.iterdir()
    }


def test_ci_does_what_everybody_does():
    """`.ci/run` is executable and ends in `make test`."""
    script = ROOT / ".ci" / "run"

    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").splitlines()[-1] == "exec make test"


def test_make_lists_every_verb():
    """`make help` has a line for each verb of the Makefile."""
    verbs = set(
        re.findall(r"^\.PHONY: (\S+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    answer = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert {line.split()[1] for line in answer.stdout.splitlines()} == verbs


def named(module: Path) -> dict[str, bool]:
    """Return the classes and the named types of a module, without underscore: True for a class."""
    found = {}
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef(name=name):
                found[name.lstrip("_")] = True
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.setdefault(name.lstrip("_"), False)
            case _:
                pass
    return found


@pytest.mark.parametrize(
    "folder",
    sorted({path.parent for path in MODULES}),
    ids=lambda path: str(path.relative_to(PACKAGE.parent)),
)
def test_class_shares_its_name_with_nothing_in_its_folder(folder):
    """No class has the name of another class or named type of its folder, be they private or not."""
    meanings: dict[str, list[bool]] = {}
    for module in folder.glob("*.py"):
        if module.stem.endswith("_pb2_grpc"):
            continue  # generated: each of the kubelet's protocols has a service Registration
        for name, is_class in named(module).items():
            meanings.setdefault(name, []).append(is_class)

    twice = {name for name, classes in meanings.items() if len(classes) > 1 and any(classes)}

    assert not twice
