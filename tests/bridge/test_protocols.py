"""The generated protocols are those of the published kubelet modules."""

import pytest

from bridge_stubs import PROTOCOLS, compile_stubs
from controlplane import UnavailableError


def test_generated_code_is_up_to_date(tmp_path):
    """Compiled anew from the published protos it is the same: `python -m bridge_stubs` writes it."""
    try:
        compile_stubs(tmp_path)
    except UnavailableError as error:
        pytest.skip(str(error))

    compiled = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert compiled == {path.name: path.read_text() for path in PROTOCOLS.glob("*_pb2*.py")}
