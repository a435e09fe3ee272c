"""What stands in for kubectl in tests of questions: requests from this process, and a context without a plugin."""

import json
from dataclasses import dataclass
from urllib.error import HTTPError
from urllib.request import urlopen

from dra_operator.cli.kubectl.requests import Context, RefusedError


@dataclass(frozen=True)
class KubectlStandIn:
    """Asks the API server at a URL, as anybody."""

    url: str

    def context(self) -> Context:
        """Return the context of an administrator."""
        return Context("default")

    def get(self, path):
        """Return the JSON at a path; raise RefusedError as kubectl reports a refusal."""
        try:
            with urlopen(f"{self.url}{path}", timeout=30) as answer:  # noqa: S310 - the address is our own
                return json.load(answer)
        except HTTPError as error:
            with error:
                status = json.load(error)
            raise RefusedError(status["reason"], f"{path}: {status['message']}") from None
