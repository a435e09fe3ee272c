"""Access whose credentials are read again while somebody writes them: what was good stays in use."""

import pytest

from dra_operator.cluster.access import AccessError, load_access


@pytest.mark.parametrize("content", ["", "\n"])
def test_a_token_file_that_is_empty_for_a_moment_makes_nobody_of_us(tmp_path, kubeconfig, content):
    """As nobody each request would get 403, upon which credentials are not read again for a minute."""
    file = tmp_path / "token"
    file.write_text("one\n")
    access = load_access(kubeconfig(user={"tokenFile": str(file)}))
    file.write_text(content)
    with pytest.raises(AccessError, match="there are none any more"):
        access.reload()
    assert access.headers() == {"Authorization": "Bearer one"}

    file.write_text("two\n")
    access.reload()
    assert access.headers() == {"Authorization": "Bearer two"}


def test_a_token_that_is_emptied_is_sought_again_soon(tmp_path, kubeconfig):
    """Ten seconds later, not with the next minute."""
    now = 1000.0
    file = tmp_path / "token"
    file.write_text("one")
    access = load_access(kubeconfig(user={"tokenFile": str(file)}), wall=lambda: now)
    file.write_text("")
    with pytest.raises(AccessError):
        access.reload()
    now += 10

    assert access.due()


def test_whoever_needed_no_credentials_needs_none_later(kubeconfig):
    """A server that asks for none is asked without."""
    access = load_access(kubeconfig())
    access.reload()

    assert access.headers() == {}
