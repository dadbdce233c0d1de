"""The job files inside the manifests under deploy/ are job files: sections, keys, options of their actuators."""

from importlib import import_module
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tuner.config import JobFile, load
from tuner.live import source_at

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def manifest_text() -> str:
    documents = YAML(typ="safe").load_all((DEPLOY / "kubernetes" / "sidecar.yaml").read_text(encoding="utf-8"))
    return next(str(d["data"]["job.toml"]) for d in documents if d["kind"] == "ConfigMap")


def chart_text() -> str:
    return str(
        YAML(typ="safe").load((DEPLOY / "helm" / "equipoise" / "values.yaml").read_text(encoding="utf-8"))["job"]
    )


def job_of(text: str, folder: Path) -> JobFile:
    path = folder / "job.toml"
    path.write_text(text)
    return load(path)


@pytest.mark.parametrize("text", [manifest_text(), chart_text()], ids=["sidecar.yaml", "values.yaml"])
def test_a_deployed_job_file_is_read_whole(text: str, tmp_path: Path) -> None:
    job = job_of(text, tmp_path)
    assert job.source, "it watches something"
    for told in job.source:
        source_at(told.path, job.job.framework or "auto", match=told.match).feed.close()
    for told in job.actuator:
        import_module(f"tuner.actuators.{told.kind}").Options.model_validate(told.options())


def test_a_wrong_key_in_a_manifest_would_be_found(tmp_path: Path) -> None:
    wrong = manifest_text().replace("gpus_per_replica", "gpus_per_replicas")
    actuator = job_of(wrong, tmp_path).actuator[0]
    options = import_module(f"tuner.actuators.{actuator.kind}").Options
    with pytest.raises(ValueError, match="gpus_per_replicas"):
        options.model_validate(actuator.options())
