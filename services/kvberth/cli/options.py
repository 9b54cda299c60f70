"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        envvar="KVBERTH_STATE",
        help="State directory of the kvberth that is meant; the default is ~/.local/state/kvberth.",
        metavar="DIRECTORY",
        show_default=False,
    ),
]
