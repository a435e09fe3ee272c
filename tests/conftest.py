"""What every test can use: the packages that live beside the tests, and where the repository is.

It also says in which order the files are given to several workers (`--dist loadfile`), and to how many.
"""

import logging
import os
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

TESTS = Path(__file__).parent
# The control plane (tests/controlplane) is a package of its own that benchmarks use too.
sys.path.insert(0, str(TESTS))

# No setting of the developer's shell reaches a test.
for name in [name for name in os.environ if name.startswith("DRA_OPERATOR_")]:
    del os.environ[name]

# How long an example takes says more about what else runs on the machine than about the code. What must be fast is
# measured by bench/, and what hangs ends by pytest's own limit.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


# --- how files are given to several workers (`--dist loadfile`)

TOGETHER = {
    "nodes": ("real/node/",),
    "fenced_plane": (
        "real/test_owned_tolerations.py",
        "real/test_ownership.py",
        "real/test_ownership_policy.py",
    ),
    "old_plane": (
        *("real/test_gates_policy_older.py", "real/test_ownership_policy_older.py", "real/test_versions.py"),
    ),
}
"""Files that share nodes, or a control plane that others do not use: one worker gets them all, and starts it once."""
LONGEST = (
    *(
        "real/test_upgrade.py",
        "real/test_beside_scheduler.py",
        "test_dockerfile.py",
        "bridge/test_histories.py",
    ),
    *("real/test_kubectl_dra.py", "real/test_allocation_policy.py", "real/test_device_reservation.py"),
    *("real/test_gates_component.py", "real/test_lost_nodes.py", "bench/test_scale.py"),
)
"""Files that take minutes, the longest first: none is begun when the others are done."""


def pytest_xdist_auto_num_workers() -> int:
    """Return two workers a processor: tests on the real API server wait for it more than half of their time."""
    return 2 * len(os.sched_getaffinity(0))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Return what gives files to workers: those of the real API server first, the longest of all before."""
    if config.getvalue("dist") != "loadfile":
        return None
    named = (*LONGEST, *chain.from_iterable(TOGETHER.values()))
    assert all((TESTS / file).exists() for file in named), "a file has another name now"
    config.option.loadscopereorder = False
    return FilesByLength(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests into the order in which their files are given to workers; within a file it stays."""
    items.sort(key=lambda item: _turn(item.path.relative_to(TESTS).as_posix()))


def _turn(file: str) -> int:
    if file in LONGEST:
        return LONGEST.index(file)
    return len(LONGEST) + (not file.startswith("real/"))


class FilesByLength(LoadFileScheduling):
    """Gives whole files to workers, in their order, and those of `TOGETHER` as if they were one."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((name for name, parts in TOGETHER.items() if any(part in file for part in parts)), file)


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the root of the checkout."""
    return TESTS.parent


@pytest.fixture
def logging_is_put_back():
    """Whoever configures logging sends it to a stream that is gone with the test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
