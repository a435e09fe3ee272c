"""What docs/history.md says to type for more nodes, on the real control plane."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).with_name("kubectl-dra")


def test_nodes_are_copied_as_the_page_says(scene, control_plane, programs, tmp_path):
    """Four nodes more, each as one that is there with its slices, let all jobs of a table begin at once."""
    scene.apply("replay/cluster.yaml")
    page = (ROOT / "docs" / "history.md").read_text()
    (script,) = re.findall(r"^for i in .*?^done > four-nodes\.yaml$", page, re.DOTALL | re.MULTILINE)
    path = str(programs.kubectl.parent)
    environment = {
        **os.environ,
        "KUBECONFIG": str(control_plane.admin_kubeconfig),
        "PATH": f"{path}:{os.environ['PATH']}",
    }
    command = ["bash", "-euc", script.replace("node-7", "node-1")]
    subprocess.run(command, check=True, cwd=tmp_path, env=environment, capture_output=True)

    example = ROOT / "examples" / "replay"
    found = subprocess.run(
        [
            *(PROGRAM, "replay", "--from", example / "jobs.csv", "-f", example / "cluster.yaml"),
            *("--with", tmp_path / "four-nodes.yaml", "-o", "json"),
        ],
        check=True,
        capture_output=True,
        text=True,
    )

    answer = json.loads(found.stdout)
    cards = {each["source"]: each["published"] for each in answer["cards"]}
    rows = {each["source"]: each for each in answer["items"] if "namespace" not in each}
    # Two nodes became six.
    assert cards["changed"] == pytest.approx(3 * cards["replay"])
    assert rows["changed"]["mean"] == 0
