"""The form that an Accept header asks for."""

import pytest

from dra_operator.sim.errors import StatusError
from dra_operator.sim.tables import Form, form_of

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form.OBJECT),
        ("*/*", Form.OBJECT),
        ("application/json", Form.OBJECT),
        (f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Form.TABLE),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Form.OBJECT),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Form.METADATA),
        (f"application/vnd.kubernetes.protobuf,{TABLE}", Form.TABLE),
        ("text/html, application/json; q=0.5", Form.OBJECT),
    ],
)
def test_the_first_form_that_is_offered_wins(accept: str, form: Form) -> None:
    """Forms that are not spoken here are passed over."""
    assert form_of(accept) is form


def test_a_client_that_takes_nothing_offered_is_told() -> None:
    """Protobuf alone gets 406."""
    with pytest.raises(StatusError) as refusal:
        form_of("application/vnd.kubernetes.protobuf")

    assert refusal.value.code == 406
