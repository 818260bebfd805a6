"""Every Python snippet of README.md runs against a real gateway, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
BASE_URL = os.environ["ZML_TEST_BASE_URL"]


def test_every_snippet_was_found() -> None:
    assert len(SNIPPETS) == README.count("```python") >= 5


@pytest.mark.parametrize("index", range(len(SNIPPETS)))
def test_snippet(index: int) -> None:
    environment = {
        **os.environ,
        "ZML_BASE_URL": BASE_URL,
        "ZML_API_KEY": os.environ["ZML_TEST_API_KEY"],
        "ZML_ADMIN_URL": os.environ["ZML_TEST_ADMIN_URL"],
        "ZML_ADMIN_KEY": os.environ["ZML_TEST_ADMIN_KEY"],
        "OPENAI_BASE_URL": f"{BASE_URL}/v1",
        "OPENAI_API_KEY": os.environ["ZML_TEST_API_KEY"],
    }
    # what a reader has to put in
    code = SNIPPETS[index].replace("http://127.0.0.1:8080", BASE_URL).replace("YOUR_KEY", environment["ZML_API_KEY"])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
