"""Lists of what to scrape, in every form in which they are kept."""

import json
from pathlib import Path

import pytest

from tuner.errors import SourceError
from tuner.feeds.targets import TargetList

FILE_SD = [
    {"targets": ["10.0.0.1:8000", "10.0.0.2:8000"], "labels": {"job": "engines"}},
    {"targets": ["10.0.0.3:9000"], "labels": {"__scheme__": "https", "__metrics_path__": "/stats"}},
]
FOUND = ("http://10.0.0.1:8000/metrics", "http://10.0.0.2:8000/metrics", "https://10.0.0.3:9000/stats")
FILE_SD_YAML = """
- targets: ["10.0.0.1:8000", "10.0.0.2:8000"]
  labels: {job: engines}
- targets: ["10.0.0.3:9000"]
  labels: {__scheme__: https, __metrics_path__: /stats}
"""
CONFIGURATION = """
global: {scrape_interval: 10s}
scrape_configs:
- job_name: ray
  file_sd_configs:
  - files: [ray*.json]
- job_name: rollout
  static_configs:
  - targets: ["10.0.0.7:30001", "10.0.0.8:30001"]
"""


def listed(folder: Path, name: str, text: str) -> tuple[str, ...]:
    (folder / name).write_text(text)
    return TargetList(str(folder / name))()


def test_prometheus_file_discovery_in_json_and_yaml(tmp_path: Path) -> None:
    assert listed(tmp_path, "targets.json", json.dumps(FILE_SD)) == FOUND
    assert listed(tmp_path, "targets.yml", FILE_SD_YAML) == FOUND


def test_a_prometheus_configuration_with_static_and_file_targets(tmp_path: Path) -> None:
    (tmp_path / "ray_sd.json").write_text(json.dumps([{"targets": ["10.0.0.9:8080"]}]))
    assert listed(tmp_path, "prometheus.yml", CONFIGURATION) == (
        "http://10.0.0.9:8080/metrics",
        "http://10.0.0.7:30001/metrics",
        "http://10.0.0.8:30001/metrics",
    )


def test_a_host_list(tmp_path: Path) -> None:
    text = "# engines\nnode-1:8000\n\nhttps://node-2:8000/stats  # behind a proxy\nnode-1:8000\n"
    assert listed(tmp_path, "hosts", text) == ("http://node-1:8000/metrics", "https://node-2:8000/stats")


def test_a_list_is_read_again_when_it_changes_and_holds_while_it_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "targets.json"
    path.write_text(json.dumps(FILE_SD[:1]))
    targets = TargetList(str(path))
    assert len(targets()) == 2
    path.write_text("[{")
    assert len(targets()) == 2
    path.write_text(json.dumps(FILE_SD))
    assert targets() == FOUND


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("targets.json", "[{", "read are"),
        ("hosts", "http://me:pw@node:1\n", "no user or password"),
        ("hosts", "not a host\n", "not a URL"),
        ("hosts", "node..cluster:8000\n", "not a URL"),
        ("hosts", "n" * 64 + ":8000\n", "not a URL"),
        ("prometheus.yml", "scrape_configs: [7]\n", "no mapping"),
        (
            "bomb.yml",
            "a: &a [x,x]\n" + "".join(f"b{i}: &b{i} [*a,*a,*a,*a]\n" for i in range(3)) + "x: [" + "*b2," * 99_999,
            "read are",
        ),
    ],
)
def test_a_list_that_is_none_is_refused_in_words(tmp_path: Path, name: str, text: str, words: str) -> None:
    with pytest.raises(SourceError, match=words) as refused:
        listed(tmp_path, name, text)
    assert "me:pw" not in str(refused.value)


def test_a_missing_list_is_refused_until_it_is_there(tmp_path: Path) -> None:
    targets = TargetList(str(tmp_path / "later"))
    with pytest.raises(SourceError, match="cannot be read"):
        targets()
    (tmp_path / "later").write_text("node-1:8000\n")
    assert targets() == ("http://node-1:8000/metrics",)
