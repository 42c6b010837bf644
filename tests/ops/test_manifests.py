#!/usr/bin/python3
"""Container, compose file and Kubernetes manifests against the programs' own tables, and against each other."""
import glob
import os
import re
import sys

import yaml

sys.path.insert(0, os.environ["PRESENCE_ROOT"] + "/tests/ops")
import checks  # noqa: E402

CONTAINERFILE = checks.read("deploy/container/Containerfile")
COMPOSE = yaml.safe_load(checks.read("deploy/container/compose.yaml"))
FILES = {os.path.basename(name): list(yaml.safe_load_all(checks.read("deploy/kubernetes", os.path.basename(name))))
         for name in glob.glob(checks.path("deploy/kubernetes/*.yaml"))}
OBJECTS = [document for documents in FILES.values() for document in documents]


def of_kind(kind):
    found = [document for document in OBJECTS if document["kind"] == kind]
    assert found, f"no {kind}"
    return found


def pods():
    return [(document, document["spec"]["template"]) for document in of_kind("Deployment") + of_kind("Job")]


def container(template):
    (only,) = template["spec"]["containers"]
    return only


def image_port():
    return int(re.search(r"^EXPOSE (\d+)$", CONTAINERFILE, re.M).group(1))


def test_every_variable_is_an_option():
    known = checks.option_variables()
    named = set(re.findall(r"\bPRESENCE_[A-Z_]+", CONTAINERFILE.replace("PRESENCE_…", "")))
    for service in COMPOSE["services"].values():
        named |= {name for name in service.get("environment", {}) if name.startswith("PRESENCE_")}
    for document in of_kind("ConfigMap"):
        named |= set(document["data"])
    for document in of_kind("Secret"):
        named |= set(document["stringData"])
    for _, template in pods():
        named |= {variable["name"] for variable in container(template).get("env", [])}
    named |= set(re.findall(r"\bPRESENCE_[A-Z_]+", checks.read("deploy/kubernetes/README.md")))
    assert named <= known, f"no such options: {sorted(named - known)}"


def test_every_value_is_allowed():
    values = {**of_kind("ConfigMap")[0]["data"], **of_kind("Secret")[0]["stringData"]}
    for document, template in pods():
        values.update({variable["name"]: variable["value"] for variable in container(template).get("env", [])})
        assert all(isinstance(value, str) for value in values.values()), f"{document['metadata']}: numbers must be quoted"
        environment = {**os.environ, **values, "PRESENCE_POSTGRES_URL": "host=/nowhere", "PRESENCE_REDIS_URL": "unix:///nowhere"}
        done = checks.subprocess.run([checks.BUILD + "/presencectl", "tenant", "list"], env=environment, text=True, check=False,
                                     stdout=checks.subprocess.PIPE, stderr=checks.subprocess.STDOUT)
        assert done.returncode == 1, f"the options were not accepted: {done.stdout}"


def test_probes_ask_what_is_served():
    for document in of_kind("Deployment"):
        only = container(document["spec"]["template"])
        (port,) = only["ports"]
        assert port == {"name": "http", "containerPort": image_port()}
        for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
            asked = only[probe]["httpGet"]
            assert asked == {"path": path, "port": "http"} and path in checks.routes(), f"{document['metadata']['name']}: {probe}"


def test_ports_agree():
    port = image_port()
    assert f"PRESENCE_LISTEN=0.0.0.0:{port}" in CONTAINERFILE
    assert of_kind("ConfigMap")[0]["data"]["PRESENCE_LISTEN"] == f"0.0.0.0:{port}"
    assert of_kind("Service")[0]["spec"]["ports"][0]["targetPort"] == "http"
    assert [COMPOSE["services"][name]["ports"] for name in ("api", "api-2")] == [[f"127.0.0.1:{here}:{port}"] for here in (8080, 8081)]


def test_pods_are_locked_up():
    user = int(re.search(r"^USER (\d+):\1$", CONTAINERFILE, re.M).group(1))
    assert f"--uid {user} " in CONTAINERFILE and user != 0
    for document, template in pods():
        name, spec, only = document["metadata"], template["spec"], container(template)
        assert spec["securityContext"] == {"runAsNonRoot": True, "runAsUser": user, "runAsGroup": user,
                                           "seccompProfile": {"type": "RuntimeDefault"}}, name
        assert only["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                           "capabilities": {"drop": ["ALL"]}}, name
        assert spec["automountServiceAccountToken"] is False, name
        assert "memory" in only["resources"]["limits"] and "cpu" in only["resources"]["requests"], name
    for name in ("api", "api-2", "worker", "migrate"):
        service = COMPOSE["services"][name]
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name


def test_selectors_meet_their_pods():
    labels = {document["metadata"]["name"]: document["spec"]["template"]["metadata"]["labels"] for document in of_kind("Deployment")}
    for document in of_kind("Deployment"):
        assert document["spec"]["selector"]["matchLabels"] == labels[document["metadata"]["name"]]
    for document in of_kind("PodDisruptionBudget"):
        assert document["spec"]["selector"]["matchLabels"] == labels[document["metadata"]["name"]]
        assert document["spec"]["maxUnavailable"] == 1
    assert of_kind("Service")[0]["spec"]["selector"] == labels["presence-api"]
    (scaler,) = of_kind("HorizontalPodAutoscaler")
    assert scaler["spec"]["scaleTargetRef"]["name"] == "presence-api"
    (api,) = (document for document in of_kind("Deployment") if document["metadata"]["name"] == "presence-api")
    assert "replicas" not in api["spec"], "the autoscaler's number would be put back at each apply"
    for document in of_kind("NetworkPolicy"):
        wanted = document["spec"]["podSelector"]["matchLabels"].items()
        assert any(wanted <= each.items() for each in labels.values()), document["metadata"]["name"]


def test_a_pod_has_the_time_to_drain():
    for document in of_kind("Deployment"):
        spec = document["spec"]["template"]["spec"]
        drain_ms = sum(int(each["value"]) for each in container(document["spec"]["template"])["env"] if each["name"] == "PRESENCE_DRAIN_MS")
        assert spec["terminationGracePeriodSeconds"] * 1000 >= drain_ms + 5000 + 5000, document["metadata"]["name"]
    for name in ("api", "worker"):
        service = COMPOSE["services"][name]
        assert int(service["stop_grace_period"][:-1]) * 1000 >= int(service["environment"].get("PRESENCE_DRAIN_MS", 0)) + 10000


def test_config_and_secret_are_those_that_pods_name():
    for document, template in pods():
        names = [source[kind]["name"] for source in container(template)["envFrom"] for kind in source]
        assert names == [of_kind("ConfigMap")[0]["metadata"]["name"], of_kind("Secret")[0]["metadata"]["name"]], document["metadata"]


def test_kustomization_lists_its_files_without_a_namespace():
    (kustomization,) = FILES["kustomization.yaml"]
    apart = {"kustomization.yaml", "secret.example.yaml", "migrate.yaml"}
    assert sorted(kustomization["resources"]) == sorted(set(FILES) - apart)
    for document in OBJECTS:
        assert "namespace" not in document.get("metadata", {}), document["kind"]
    image = kustomization["images"][0]
    assert all(container(document["spec"]["template"])["image"] == image["name"] for document in of_kind("Deployment"))
    assert container(of_kind("Job")[0]["spec"]["template"])["image"] == f"{image['newName']}:{image['newTag']}"


def test_health_check_and_migration_are_commands():
    commands = re.findall(r'^COMMAND\(\w+, "(\w+)"', checks.read("service/cli/commands.def"), re.M)
    assert re.search(r'^HEALTHCHECK .* CMD \["presencectl", "(\w+)"\]$', CONTAINERFILE, re.M).group(1) in commands
    assert COMPOSE["services"]["migrate"]["entrypoint"] == ["presencectl"] and COMPOSE["services"]["migrate"]["command"][0] in commands
    assert container(of_kind("Job")[0]["spec"]["template"])["command"] == ["presencectl", "migrate"]


def test_compose_has_everything_and_in_order():
    services = COMPOSE["services"]
    assert {**services["api-2"], "ports": []} == {**services["api"], "ports": []} and services["worker"]["deploy"]["replicas"] == 2
    assert int(services["redis"]["image"].split(":")[1]) >= 8
    mounted = services["redis"]["volumes"][0].split(":")
    assert mounted[1] == services["redis"]["command"][1]
    assert os.path.exists(os.path.join(checks.path("deploy/container"), mounted[0]))
    for name in ("api", "worker"):
        assert services[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
        assert services[name]["environment"]["PRESENCE_ROLES"] == name
    # A server that is only making its database answers on the socket alone.
    assert "-h" in services["postgres"]["healthcheck"]["test"]
    for service in services.values():
        for needed in service.get("depends_on", {}):
            assert needed in services


def test_image_is_built_from_what_is_there():
    ignored = checks.read(".containerignore").split("\n")
    for place in ("deploy", "service", "include", "migrations", "Makefile", "CHANGELOG.md", ".git"):
        assert place not in ignored, f"{place} is needed to build"
    assert os.readlink(checks.path(".dockerignore")) == ".containerignore"
    assert "curl" not in CONTAINERFILE.split("\nFROM ")[-1]


checks.main(*(value for name, value in list(globals().items()) if name.startswith("test_")))
