#!/usr/bin/python3
"""Alerts, dashboard and runbook against what the programs really export, and against each other."""
import json
import os
import re
import sys

import yaml

sys.path.insert(0, os.environ["PRESENCE_ROOT"] + "/tests/ops")
import checks  # noqa: E402

RULES = "deploy/prometheus/presence.rules.yml"
ADDED_BY_PROMETHEUS = {"instance", "job", "deployment", "le"}


def rules():
    return [rule for group in yaml.safe_load(checks.read(RULES))["groups"] for rule in group["rules"]]


def alerts():
    return [rule for rule in rules() if "alert" in rule]


def known_series():
    """Series name -> labels: those that the programs export, a histogram's by their three names, and what rules record."""
    series = {}
    for name, (kind, labels) in checks.metrics().items():
        names = [name + end for end in ("_bucket", "_sum", "_count")] if kind == "histogram" else [name]
        series.update({each: labels for each in names})
    for rule in rules():
        if "record" in rule:
            kept = re.search(r"by \(([^)]*)\)", rule["expr"]).group(1)
            series[rule["record"]] = {label.strip() for label in kept.split(",")}
    return series


def check_expression(expression, series, where):
    names = re.findall(r"presence[\w:]+", re.sub(r'"[^"]*"', '""', expression))
    assert names, f"{where}: names no metric: {expression}"
    for name in names:
        assert name in series, f"{where}: no such metric: {name}"
    for name, matchers in re.findall(r"(presence[\w:]+)\{([^}]*)\}", expression):
        for label in re.findall(r"(\w+)\s*[=!]", matchers):
            assert label in series[name] | ADDED_BY_PROMETHEUS, f"{where}: {name} has no label {label}"
    possible = set().union(*(series[name] for name in names)) | ADDED_BY_PROMETHEUS
    for group in re.findall(r"\bby \(([^)]*)\)", expression):
        for label in group.split(","):
            assert label.strip() in possible, f"{where}: none of its metrics has a label {label.strip()}"


def test_rules_name_only_what_is_exported():
    series = known_series()
    for rule in rules():
        check_expression(rule["expr"], series, rule.get("alert") or rule["record"])


def test_dashboard_names_only_what_is_exported():
    dashboard = json.loads(checks.read("deploy/grafana/presence.json"))
    series = known_series()
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids), "two panels have the same id"
    for panel in dashboard["panels"]:
        assert panel["targets"], f"{panel['title']}: shows nothing"
        for target in panel["targets"]:
            check_expression(target["expr"], series, panel["title"])
            possible = set().union(*series.values()) | ADDED_BY_PROMETHEUS
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert label in possible, f"{panel['title']}: no metric has a label {label}"
    for variable in dashboard["templating"]["list"]:
        for name in re.findall(r"label_values\((\w+),", variable["query"]):
            assert name in series, f"variable {variable['name']}: no such metric: {name}"


def test_dashboard_shows_every_metric():
    shown = checks.read("deploy/grafana/presence.json")
    recorded = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}
    shown += "".join(expression for name, expression in recorded.items() if name in shown)
    only_in_detail = {"presence_expire_batch", "presence_field_ttl_replies_total", "presence_event_streams",
                      "presence_streams_dropped_total", "presence_redis_findings"}
    alone = {name for name in checks.metrics() if not re.search(name + r"(_bucket|_sum|_count)?\b", shown)}
    assert alone <= only_in_detail, f"neither shown nor named as a detail: {sorted(alone - only_in_detail)}"


def test_each_alert_says_what_a_person_needs():
    for rule in alerts():
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        assert rule["annotations"]["summary"].endswith("."), rule["alert"]
        assert rule["annotations"]["runbook_url"] == f"deploy/RUNBOOK.md#{rule['alert'].lower()}", rule["alert"]


def test_runbook_and_alerts_name_each_other():
    text = checks.read("deploy/RUNBOOK.md")
    headings = re.findall(r"^### (Presence\w+)$", text, re.M)
    assert sorted(headings) == sorted(rule["alert"] for rule in alerts())
    for heading in headings:
        part = text.split(f"### {heading}\n", 1)[1].split("\n##", 1)[0]
        for word in ("**Means**", "**Users**", "**Look**", "**Do**", "**Over**"):
            assert word in part, f"the runbook's part {heading} has no {word}"


def test_runbook_names_only_what_there_is():
    text = checks.read("deploy/RUNBOOK.md")
    series, options = known_series(), checks.option_variables() | {"PRESENCE_CONFIG"}
    for name in set(re.findall(r"\bpresence_[a-z_]+(?:total|seconds|ratio|up|drift|mismatch|backlog|listeners)\b", text)):
        assert name in series, f"no such metric: {name}"
    for name in set(re.findall(r"\bPRESENCE_[A-Z_]+\b", text)):
        assert name in options, f"no such option: {name}"
    help_text = checks.run(checks.BUILD + "/presencectl", "--help")
    for words in set(re.findall(r"^ *presencectl ((?:[a-z]+ ?)+)", text, re.M)):
        command = words.split()
        assert any(f"\n  {' '.join(command[:count])} " in help_text for count in (1, 2)), f"no such command: {words}"


def test_backlog_alert_follows_the_cap():
    cap = int(re.search(r'OPTION\(backlog_cap, "backlog-cap", INT, "(\d+)"', checks.read("service/options.def")).group(1))
    rule = next(rule for rule in alerts() if rule["alert"] == "PresenceBacklogGrowing")
    assert f"> {cap // 4}\n" in rule["expr"], "it is said to fire at a quarter of the cap"


def promtool():
    program = checks.DEPS + "/bin/promtool"
    if not os.access(program, os.X_OK):
        raise checks.Skip("promtool cannot be had here")
    return program


def test_promtool_accepts_rules_and_configuration():
    checks.run(promtool(), "check", "rules", checks.path(RULES))
    checks.run(promtool(), "check", "config", "--syntax-only", checks.path("deploy/prometheus/scrape.yml"))


def test_alerts_fire_when_they_should():
    tests = checks.read("tests/ops/rules.test.yml")
    for rule in alerts():
        assert len(re.findall(rf"alertname: {rule['alert']}\b", tests)) >= 2, f"{rule['alert']}: no test where it fires and where not"
    checks.run(promtool(), "test", "rules", checks.path("tests/ops/rules.test.yml"))


checks.main(
    test_rules_name_only_what_is_exported,
    test_dashboard_names_only_what_is_exported,
    test_dashboard_shows_every_metric,
    test_each_alert_says_what_a_person_needs,
    test_runbook_and_alerts_name_each_other,
    test_runbook_names_only_what_there_is,
    test_backlog_alert_follows_the_cap,
    test_promtool_accepts_rules_and_configuration,
    test_alerts_fire_when_they_should,
)
