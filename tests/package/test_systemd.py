#!/usr/bin/python3
"""The units of the Debian package under a running systemd, with Redis and PostgreSQL as a bare Debian brings them: what deploy/systemd
and the runbook promise. Needs root, namespaces, cgroup2 and the package mirror; takes a minute or two."""
import json
import os
import re
import shutil
import subprocess
import sys
import time

sys.path[:0] = [os.environ["PRESENCE_ROOT"] + "/tests/package"]
import bare  # noqa: E402
from bare import APT, checks  # noqa: E402

PACKAGES = ("systemd-sysv", "dbus", "redis-server", "postgresql", "curl", "openssl", "procps", "iproute2")
CONFIGURATION = "/etc/presence/presence.conf"
folder = machine = first = token = None


def attempt(*command, stdin=""):
    """Runs a command in the machine; its exit status and what it said."""
    done = subprocess.run(["nsenter", "-t", first, "-m", "-p", "-u", "-i", "-n", "-C", *command], input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, env={**bare.CLEAN, "PRESENCE_CONFIG": CONFIGURATION})
    return done.returncode, done.stdout


def inside(*command, stdin=""):
    status, said = attempt(*command, stdin=stdin)
    assert status == 0, f"{' '.join(command)}: exit status {status}\n{said}"
    return said


def until(condition, what, seconds=60):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"waited {seconds} s: {what}\n{attempt('journalctl', '--no-pager', '-n', '40')[1]}"
        time.sleep(0.1)


def write(name, text, mode=0o644):
    with open(folder + name, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(folder + name, mode)


def shown(unit, name):
    return inside("systemctl", "show", "--property", name, "--value", unit).strip()


def process(unit="presenced"):
    return shown(unit, "MainPID")


def journal(*options):
    return inside("journalctl", "--no-pager", "--output=cat", *options)


def ready(address="localhost:8080"):
    return '"ready":true' in attempt("curl", "-sk", "-m", "5", ("" if "//" in address else "http://") + address + "/readyz")[1]


def heartbeat(address="http://localhost:8080"):
    return attempt("curl", "-sk", "-m", "10", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", "-H",
                   f"Authorization: Bearer {token}", address + "/v1/tenants/demo/devices/d/heartbeat")[1]


def boot():
    global machine, first
    log = open(folder + "/console", "ab")
    machine = subprocess.Popen([os.environ["PRESENCE_ROOT"] + "/tests/package/boot", folder], stdin=subprocess.DEVNULL, stdout=log,
                               stderr=log)
    limit = time.monotonic() + 60
    while True:
        if machine.poll() is not None:
            said = open(folder + "/console", encoding="utf-8", errors="replace").read()
            raise checks.Skip("this machine lets no systemd run in namespaces: " + said.strip().splitlines()[-1])
        children = open(f"/proc/{machine.pid}/task/{machine.pid}/children", encoding="utf-8").read().split()
        if children and open(f"/proc/{children[0]}/comm", encoding="utf-8").read().strip() == "systemd":
            break
        assert time.monotonic() < limit, "no systemd after 60 s"
        time.sleep(0.1)
    first = children[0]
    until(lambda: attempt("systemctl", "is-system-running")[1].strip() in ("running", "degraded"), "the system is up")


def power_off():
    global machine
    attempt("systemctl", "poweroff", "--no-block")
    try:
        machine.wait(60)
    except subprocess.TimeoutExpired:
        machine.kill()
        machine.wait()
    machine = None
    # What systemd grouped its processes by stays behind, empty, in the folder that boot made.
    (hierarchy, *_) = checks.run("findmnt", "-n", "-t", "cgroup2", "-o", "TARGET").split()
    for place, _, _ in os.walk(os.path.join(hierarchy, os.path.basename(folder)), topdown=False):
        os.rmdir(place)


def test_a_bare_debian_boots():
    global folder
    if not shutil.which("nsenter") or not checks.run("findmnt", "-n", "-t", "cgroup2").strip():
        raise checks.Skip("needs nsenter and cgroup2")
    folder = bare.make(*PACKAGES)
    # What it depends on: the machine has no network of its own.
    bare.inside(folder, *APT, "install", "--no-install-recommends", "/opt/presence.deb")
    bare.inside(folder, *APT, "purge", "presence")
    boot()
    assert inside("systemctl", "is-active", "redis-server", "postgresql").split() == ["active", "active"]


needs_machine = bare.needs(lambda: machine, "there is no Debian that runs")


@needs_machine
def test_installed_configured_migrated_and_started():
    global token
    inside(*APT, "install", "--no-install-recommends", "/opt/presence.deb")
    assert attempt("systemctl", "is-enabled", "presenced")[1].strip() == "disabled"
    assert attempt("systemctl", "is-active", "presenced")[1].strip() == "inactive"
    inside("su", "postgres", "-c", "psql -q", stdin="CREATE ROLE presence LOGIN PASSWORD 'it''s'; CREATE DATABASE presence OWNER presence")
    os.makedirs(folder + "/etc/presence")
    sample = open(folder + "/usr/share/doc/presence/examples/presence.conf", encoding="utf-8").read()
    wanted = "postgres_url = host=127.0.0.1 dbname=presence user=presence password='it\\'s'"
    write(CONFIGURATION, re.sub(r"^#postgres_url =.*", lambda _: wanted, sample, flags=re.M), 0o600)

    # Before the schema is there it ends at once, and is tried again for as long as it takes.
    assert attempt("systemctl", "start", "presenced")[0] != 0
    until(lambda: int(shown("presenced", "NRestarts")) > 6, "started again and again")
    assert "presencectl migrate" in journal("-u", "presenced", "-p", "err"), "why it cannot start is no error in the journal"
    inside("presencectl", "migrate")
    until(lambda: shown("presenced", "ActiveState") == "active", "active once the schema is there")
    inside("systemctl", "enable", "--now", "presenced")

    inside("presencectl", "tenant", "create", "demo")
    token = json.loads(inside("presencectl", "token", "create", "--tenant", "demo", "--scope", "device", "--json"))["secret"]
    until(ready, "ready")
    assert heartbeat() == "204"


@needs_machine
def test_the_process_is_its_user_and_may_do_nothing_else():
    pid = process()
    assert inside("ps", "-o", "user=", "-p", pid).strip() == "presence"
    status = inside("cat", f"/proc/{pid}/status")
    for wanted in (r"CapEff:\s+0+$", r"CapBnd:\s+0+$", r"NoNewPrivs:\s+1$", r"Seccomp:\s+2$"):
        assert re.search("^" + wanted, status, re.M), f"{wanted}\n{status}"
    for place in ("/usr", "/etc", "/var/lib"):
        status, said = attempt("nsenter", "-t", pid, "-m", "touch", place + "/x")
        assert status != 0 and "Read-only" in said, f"{place}: {status} {said}"
    assert attempt("su", "presence", "-s", "/bin/sh", "-c", "cat " + CONFIGURATION)[0] != 0, "its user reads the configuration"
    print(inside("systemd-analyze", "security", "--no-pager", "--threshold=19", "presenced"))


@needs_machine
def test_the_journal_knows_what_is_a_warning():
    inside("journalctl", "--flush")
    everything, warnings = journal("-u", "presenced*"), journal("-u", "presenced*", "-p", "warning")
    assert "event=listening" in everything and "event=listening" not in warnings
    assert "event=redis_check" in warnings, warnings  # Debian's Redis keeps snapshots only
    assert "<4>" not in everything and "<6>" not in everything


@needs_machine
def test_a_restart_is_clean():
    before = process()
    inside("systemctl", "restart", "presenced")
    until(ready, "ready again")
    assert process() != before and heartbeat() == "204"
    assert "event=stopped status=ok" in journal("-u", "presenced")
    assert shown("presenced", "Result") == "success"
    inside("systemctl", "kill", "-s", "KILL", "presenced")
    until(lambda: shown("presenced", "ActiveState") == "active" and ready(), "back after SIGKILL")


@needs_machine
def test_reload_shows_a_new_certificate():
    def certificate(serial):
        inside("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
               "-subj", "/CN=localhost", "-set_serial", serial, "-keyout", "/etc/presence/tls.key", "-out", "/etc/presence/tls.crt")
        inside("chown", "root:presence", "/etc/presence/tls.key")
        inside("chmod", "0640", "/etc/presence/tls.key")

    def served(serial):
        said = attempt("openssl", "s_client", "-connect", "localhost:8443")[1]
        return f"serial={serial}" in attempt("openssl", "x509", "-noout", "-serial", stdin=said)[1]

    certificate("0x1111")
    write("/etc/presence/tls.env", "PRESENCE_LISTEN=127.0.0.1:8443\nPRESENCE_TLS_CERT=/etc/presence/tls.crt\n"
          "PRESENCE_TLS_KEY=/etc/presence/tls.key\nPRESENCE_ROLES=api\n")
    inside("systemctl", "start", "presenced@tls")
    until(lambda: served("1111"), "the first certificate")
    before = process("presenced@tls")
    certificate("0x2222")
    inside("systemctl", "reload", "presenced@tls")
    until(lambda: served("2222"), "the second certificate")
    assert process("presenced@tls") == before
    assert heartbeat("https://localhost:8443") == "204"
    inside("systemctl", "stop", "presenced@tls")
    assert shown("presenced@tls", "Result") == "success"


@needs_machine
def test_processes_of_one_machine_and_a_value_that_is_not_allowed():
    write("/etc/presence/api.env", "PRESENCE_ROLES=api\nPRESENCE_LISTEN=127.0.0.1:8081\nPRESENCE_DRAIN_MS=500\n")
    write("/etc/presence/worker.env", "PRESENCE_ROLES=worker\nPRESENCE_LISTEN=127.0.0.1:8082\n")
    inside("systemctl", "enable", "--now", "presenced@api", "presenced@worker")
    inside("systemctl", "disable", "--now", "presenced")
    until(lambda: ready("localhost:8081") and ready("localhost:8082"), "both ready")
    assert heartbeat("http://localhost:8081") == "204"
    until(lambda: re.search(r"served_partitions +8$", attempt("presencectl", "status")[1], re.M), "the worker serves all partitions")
    write("/etc/presence/wrong.env", "PRESENCE_ROLES=cook\n")
    assert attempt("systemctl", "start", "presenced@wrong")[0] != 0
    assert shown("presenced@wrong", "ActiveState") == "failed" and shown("presenced@wrong", "NRestarts") == "0"
    assert "cook" in journal("-u", "presenced@wrong", "-p", "err")


def upgrade(suffix, program=None):
    """Installs the package as another version, perhaps with another presenced; returns what apt said."""
    shutil.rmtree(folder + "/opt/newer", ignore_errors=True)
    bare.inside(folder, "dpkg-deb", "-R", "/opt/presence.deb", "/opt/newer")
    control = open(folder + "/opt/newer/DEBIAN/control", encoding="utf-8").read()
    write("/opt/newer/DEBIAN/control", re.sub(r"^(Version: .*)", r"\1+" + suffix, control, flags=re.M))
    if program is not None:
        write("/opt/newer/usr/bin/presenced", program, 0o755)
    bare.inside(folder, "dpkg-deb", "-b", "/opt/newer", "/opt/newer.deb")
    return inside(*APT, "install", "/opt/newer.deb")


@needs_machine
def test_an_upgrade_that_does_not_start_takes_one_process_only():
    worker = process("presenced@worker")
    assert "presenced@api.service does not start" in upgrade("1", "#!/bin/sh\nexit 1\n")
    assert process("presenced@worker") == worker and ready("localhost:8082")


@needs_machine
def test_an_upgrade_restarts_what_runs_and_starts_nothing_else():
    worker = process("presenced@worker")
    upgrade("2")
    until(lambda: ready("localhost:8081") and ready("localhost:8082"), "the new version runs")
    assert process("presenced@worker") != worker
    assert heartbeat("http://localhost:8081") == "204"
    assert shown("presenced", "ActiveState") == "inactive" and shown("presenced@tls", "ActiveState") == "inactive"


@needs_machine
def test_what_is_enabled_comes_up_with_the_machine():
    power_off()
    boot()
    until(lambda: ready("localhost:8081") and ready("localhost:8082"), "both ready after the boot")
    assert heartbeat("http://localhost:8081") == "204"
    assert shown("presenced", "ActiveState") == "inactive"


@needs_machine
def test_removal_stops_it():
    inside(*APT, "purge", "presence")
    assert attempt("pgrep", "-x", "presenced")[1] == "", "a process is left"
    units = attempt("systemctl", "list-units", "--all", "--plain", "--no-legend", "presenced*")[1]
    assert " running " not in units, units
    power_off()


try:
    checks.main(
        test_a_bare_debian_boots,
        test_installed_configured_migrated_and_started,
        test_the_process_is_its_user_and_may_do_nothing_else,
        test_the_journal_knows_what_is_a_warning,
        test_a_restart_is_clean,
        test_reload_shows_a_new_certificate,
        test_processes_of_one_machine_and_a_value_that_is_not_allowed,
        test_an_upgrade_that_does_not_start_takes_one_process_only,
        test_an_upgrade_restarts_what_runs_and_starts_nothing_else,
        test_what_is_enabled_comes_up_with_the_machine,
        test_removal_stops_it,
    )
finally:
    if machine is not None:
        power_off()
    if folder is not None:
        shutil.rmtree(folder)
