"""The hooks as a training process has them: on its path, without our package."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
HOOKS = ROOT / "deploy" / "hooks"


def hook(name: str) -> ModuleType:
    """A hook's module, fresh: each test is a process that has just begun."""
    if str(HOOKS) not in sys.path:
        sys.path.insert(0, str(HOOKS))
    sys.modules.pop(name, None)
    return importlib.import_module(name)
