"""cosign, built from its published module, with a key of its own and without any service."""

import subprocess
from pathlib import Path

from controlplane.binaries import Installation, install, say_to_stderr
from controlplane.golang import Say

VERSION = "v3.1.3"
COSIGN = Installation(
    what="cosign",
    module=Path(__file__).parent,
    packages={"cosign": "github.com/sigstore/cosign/v3/cmd/cosign"},
    folder=f"cosign/{VERSION}",
    duration="10 minutes",
)


class CosignError(RuntimeError):
    """cosign ended with an error; the text is what it said."""


class Cosign:
    """cosign with a key pair and a signing config in a folder."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program = program
        self.environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "COSIGN_PASSWORD": "password"}
        self._folder = folder
        self.config = folder / "signing-config.json"
        self.run("signing-config", "create", f"--out={self.config}")
        self.run("generate-key-pair", f"--output-key-prefix={folder / 'key'}")
        # Without this file cosign asks for that of the public service.
        trusted = folder / "trusted-root.json"
        trusted.write_text('{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}')
        root = f"--trusted-root={trusted}"
        self.signing = ("--yes", f"--key={folder / 'key.key'}", f"--signing-config={self.config}", root)
        self.verifying = (f"--key={folder / 'key.pub'}", "--insecure-ignore-tlog=true", root)

    def run(self, *arguments: str) -> str:
        """Return what cosign prints; raise `CosignError` with what it says if it fails."""
        done = subprocess.run(
            [self.program, *arguments],
            env=self.environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise CosignError(done.stderr)
        return done.stdout


def find_or_build_cosign(say: Say = say_to_stderr) -> Path:
    """Return the program; raise `UnavailableError` if there can be none."""
    return install(COSIGN, say)["cosign"]
