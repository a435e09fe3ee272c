"""What the live tests share: Kubernetes' own code as a program."""

import os

import pytest

from conformance.program import UnavailableError, find_or_build


@pytest.fixture(scope="session")
def program():
    """Return upstream's code as a program; without Go the test is skipped, but not under CI."""
    try:
        return find_or_build()
    except UnavailableError as reason:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(reason))
