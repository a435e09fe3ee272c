"""What every test can use: the packages that live beside the tests, and where the repository is."""

import logging
import os
import sys
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

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
