"""The library loads nothing that only the operator needs."""

import re
import subprocess
import sys
from pathlib import Path

CLUSTER = Path(__file__).parents[2] / "examples" / "questions" / "cluster.yaml"
OF_THE_OPERATOR = {
    *("aiohttp", "asyncio", "celpy", "click", "jsonpatch", "kopf", "kubernetes", "prometheus_client"),
    *("rich", "structlog"),
}
ASKED = f"""
from dra_operator import *
selector('device.driver == "a"').matches({{"name": "x"}}, driver="a")
cluster = Cluster.load({str(CLUSTER)!r})
lint([], cluster)
cluster.lint()
"""


def imported(code):
    """Return the modules that a process imports, by its own account (`python -X importtime`)."""
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return set(re.findall(r"^import time: .*\| +(\S+)$", result.stderr, re.MULTILINE))


def test_every_name_of_the_library_works_without_the_operators_packages():
    """Whoever embeds the library waits for no client, no event loop and no command line."""
    modules = imported(ASKED)

    # The module of a name is imported by a call, which is not in the account; what that imports is.
    assert {"pydantic", "dra_operator.questions.state"} <= modules
    assert not {module.partition(".")[0] for module in modules} & OF_THE_OPERATOR


def test_importing_the_package_alone_loads_no_question():
    """A command that asks nothing starts as fast as before there was a library."""
    modules = imported("import dra_operator")

    assert {module for module in modules if module.startswith("dra_operator")} == {
        "dra_operator",
        "dra_operator._version",
    }


def test_counting_devices_imports_neither_search_nor_compiler():
    """`kubectl dra top` takes little longer than the server; what decides about claims is for who asks for it."""
    code = """
import sys
from dra_operator.questions.contents import gather_stored
from dra_operator.questions.state import ClusterState
from dra_operator.questions.usage import find_usage
node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
find_usage(ClusterState(gather_stored([node])))
print(*sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not set(result.stdout.split()) & {
        "dra_operator.allocator.allocator",
        "dra_operator.explain",
        "dra_operator.allocator.search",
        "dra_operator.cel.program",
        "dra_operator.pods.claim_sets",
        "dra_operator.questions.load",
    }
