#!/usr/bin/python3
"""The Debian package in a bare Debian of the machine's own release: apt installs it, nothing starts, it works, lintian has nothing to
say, it goes away again. Needs root and the package mirror; takes a minute or two."""
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys

sys.path[:0] = [os.environ["PRESENCE_ROOT"] + "/tests/package"]
import bare  # noqa: E402
from bare import APT, checks, deb  # noqa: E402

folder = None


def inside(*command):
    return bare.inside(folder, *command)


def test_a_bare_debian_is_made():
    global folder
    folder = bare.make()


needs_debian = bare.needs(lambda: folder, "there is no bare Debian to install into")


@needs_debian
def test_apt_installs_it_and_starts_nothing():
    inside(*APT, "install", "--no-install-recommends", "/opt/presence.deb")
    running = []
    for link in glob.glob("/proc/[0-9]*/root"):
        try:
            if os.readlink(link) == folder:
                running.append(link)
        except OSError:
            pass
    assert not running, f"started: {running}"
    assert not glob.glob(folder + "/etc/systemd/system/**/presenced*", recursive=True), "a unit is enabled"
    assert re.match(r"presence:x:\d+:\d+:Presence service:", inside("getent", "passwd", "presence"))


@needs_debian
def test_it_runs_as_its_user_and_says_what_is_missing():
    for program in ("presenced", "presencectl", "presence-sim"):
        assert inside(program, "--version").startswith(program + " ")
    done = subprocess.run(["chroot", "--userspec=presence", folder, "presenced", "--startup-wait-ms", "0"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, env={"PATH": "/usr/sbin:/usr/bin"})
    assert done.returncode == 1 and "cannot reach PostgreSQL" in done.stdout, done.stdout
    listed = inside("dpkg", "-V", "presence")
    assert "usr/bin" not in listed, f"files differ from the package's: {listed}"


@needs_debian
def test_an_upgrade_keeps_configuration_and_runs_no_service():
    os.makedirs(folder + "/etc/presence")
    with open(folder + "/etc/presence/presence.conf", "w", encoding="utf-8") as file:
        file.write("listen = 127.0.0.1:1\n")
    inside(*APT, "install", "--reinstall", "/opt/presence.deb")
    assert open(folder + "/etc/presence/presence.conf", encoding="utf-8").read() == "listen = 127.0.0.1:1\n"


@needs_debian
def test_lintian_has_nothing_to_say():
    inside(*APT, "install", "--no-install-recommends", "lintian")
    print(inside("lintian", "--allow-root", "--fail-on", "error,warning", "--info", "/opt/presence.deb"))


@needs_debian
def test_it_goes_away_without_a_trace_but_its_user_and_configuration():
    inside(*APT, "purge", "presence")
    left = [name for place in ("usr", "var", "lib") for name in glob.glob(f"{folder}/{place}/**/presence*", recursive=True)
            if "/tmp/" not in name and "/var/log" not in name and "/var/cache" not in name]
    assert not left, left
    assert os.path.exists(folder + "/etc/presence/presence.conf")


def test_the_same_sources_give_the_same_package():
    def build():
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        checks.run("make", "-C", checks.ROOT, "DEBUG=1", "deb", env=clean)
        return hashlib.sha256(open(deb(), "rb").read()).hexdigest()
    assert build() == build()


try:
    checks.main(
        test_a_bare_debian_is_made,
        test_apt_installs_it_and_starts_nothing,
        test_it_runs_as_its_user_and_says_what_is_missing,
        test_an_upgrade_keeps_configuration_and_runs_no_service,
        test_lintian_has_nothing_to_say,
        test_it_goes_away_without_a_trace_but_its_user_and_configuration,
        test_the_same_sources_give_the_same_package,
    )
finally:
    if folder is not None:
        shutil.rmtree(folder)
