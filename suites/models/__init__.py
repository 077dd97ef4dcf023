"""The models that suites measure, by name. Importing this, and listing the names, imports no torch.

One model is one file of this folder: it declares a `ModelSpec` in `MODELS`; its networks, if they are our own, lie in
`nets/`, which only `build` imports. Knows no backend and no harness.
"""

from suites.models._registry import get, names
from suites.models._spec import ModelError, ModelSpec, Option, UnknownModel

__all__ = ["ModelError", "ModelSpec", "Option", "UnknownModel", "get", "names"]
