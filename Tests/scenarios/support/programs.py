"""The paths of the two programs under test, and of this folder."""

import os
import pathlib

from .wire import ROOT

HERE = pathlib.Path(__file__).resolve().parent


def programs():
    """The paths of the two programs: from the environment, else the release build's, else the debug build's."""
    builds = [ROOT / ".build" / kind for kind in ("dist", "debug")]
    build = next((folder for folder in builds if (folder / "coatcheck").exists()), builds[-1])
    return (os.environ.get(name) or str(build / program) for name, program in (
        ("COATCHECK", "coatcheck"), ("COATCHECK_SANDBOX", "coatcheck-sandbox")))


COATCHECK, SANDBOX = programs()
