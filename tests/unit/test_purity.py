"""The two lower storeys touch no world, and asking for help loads nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOWER = ("simulators", "policies")
WORLD = {
    *("asyncio", "datetime", "http", "importlib", "io", "logging", "os", "pathlib", "random", "shutil", "socket"),
    *("sqlite3", "subprocess", "sys", "tempfile", "threading", "time", "urllib"),
    *("optuna", "prometheus_api_client", "prometheus_client", "pydantic", "ray", "requests", "rich", "typer", "tuner"),
}
HEAVY_ROOM = "simulators.events."
"""Its modules import what they own at their top, and are themselves imported on use."""
HEAVY = {
    "pydantic",
    "numba",
    "numpy",
    "google.protobuf",
    "tensorboardX",
    "jinja2",
    "ruamel",
    "tomlkit",
    "prometheus_client",
    "optuna",
    "ray",
    "sqlalchemy",
}


def modules_of(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports_of(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize(
    "path", [p for name in LOWER for p in modules_of(name)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_no_module_of_the_lower_storeys_names_a_door_to_the_world(path: Path) -> None:
    assert {name for name in imports_of(path) if name.partition(".")[0] in WORLD} == set()


def run_python(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_the_lower_storeys_load_nothing_but_themselves_and_the_standard_library() -> None:
    modules = [m for name in LOWER for path in modules_of(name) if not (m := dotted(path)).startswith(HEAVY_ROOM)]
    loaded = run_python(f"import importlib, sys\nfor m in {modules!r}: importlib.import_module(m)\nprint(*sys.modules)")
    strangers = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names) - set(LOWER)
    site = {name for name in strangers if name.startswith(("_", "sitecustomize", "usercustomize"))}
    assert strangers - site == set()
    assert set(modules) <= set(loaded)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; sys.stdout = sys.stderr\n"
        "from tuner.cli import main; assert main(['--help']) == 0\n"
        "sys.stdout = sys.__stdout__; print(*sys.modules)"
    )
    loaded = run_python(code)
    assert {name for name in loaded if name in HEAVY} == set()
