"""On the path of a new process of Python: hides the package that PLANTED_WITHOUT names, plants the fault of PLANTED."""

import importlib
import os
import sys

if os.environ.get("PLANTED_WITHOUT"):
    sys.modules[os.environ["PLANTED_WITHOUT"]] = None
if os.environ.get("PLANTED"):
    importlib.import_module("tests.inspect.planted.trial")
