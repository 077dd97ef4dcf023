"""The models that suites measure, by name. Importing this, and listing the names, imports no torch.

One model is one file of this folder: it declares a `ModelSpec` in `MODELS`; its networks, if they are our own, lie in
`nets/`, which only `build` imports. `user/` reads the files of users. Knows no backend and no harness.
"""

from suites.models._registry import get, names
from suites.models._sets import INPUT_SETS
from suites.models._spec import FORMS, ModelError, ModelSpec, Option, UnknownModel, read_value
from suites.models.user import EXPECTED as FILES
from suites.models.user import file_of, is_path

__all__ = [
    "FILES",
    "FORMS",
    "INPUT_SETS",
    "ModelError",
    "ModelSpec",
    "Option",
    "UnknownModel",
    "file_of",
    "get",
    "is_path",
    "names",
    "read_value",
]
