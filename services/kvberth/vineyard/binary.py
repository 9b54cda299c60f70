"""Finds the vineyardd program that the wheel `vineyard-bdist` carries. Starts nothing."""

import os
from importlib import metadata
from pathlib import Path

from kvberth.vineyard.errors import BinaryMissing

_DISTRIBUTION = "vineyard-bdist"
_PLACE = "vineyard/bdist/vineyardd"


def find_vineyardd() -> Path:
    """Returns the path of the installed vineyardd; raises BinaryMissing where there is none that can be run."""
    # By the package's metadata: importing `vineyard.bdist` would load the whole official client with it.
    try:
        found = Path(str(metadata.distribution(_DISTRIBUTION).locate_file(_PLACE)))
    except metadata.PackageNotFoundError:
        raise BinaryMissing(_PLACE, 'vineyardd is not installed: pip install "kvberth[bare]"') from None
    if not (found.is_file() and os.access(found, os.X_OK)):
        raise BinaryMissing(str(found), 'no vineyardd that can be run is there: pip install "kvberth[bare]"')
    return found
