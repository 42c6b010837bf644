"""A bare Debian of the machine's own release, in a folder, for the scripts here."""
import glob
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.environ["PRESENCE_ROOT"] + "/tests/ops")
import checks  # noqa: E402

APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y")
CLEAN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}


def deb():
    (package,) = glob.glob(checks.BUILD + "/deb/*.deb")
    return package


def release():
    return re.search(r"^VERSION_CODENAME=(\w+)", open("/etc/os-release", encoding="utf-8").read(), re.M).group(1)


def mirror():
    targets = checks.run("apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(LABEL)", "Created-By: Packages")
    for line in targets.splitlines():
        site, codename, label = line.split(" ", 2)
        if codename == release() and label == "Debian":
            return site
    raise checks.Skip(f"apt knows no mirror for {release()}")


def make(*packages):
    """Makes one with these packages, puts ours at /opt/presence.deb and returns the folder, which is the caller's to remove."""
    if os.getuid() != 0 or not shutil.which("mmdebstrap"):
        raise checks.Skip("needs root and mmdebstrap")
    site = mirror()
    folder = tempfile.mkdtemp(dir="/var/tmp", prefix="presence-chroot.")
    checks.run("mmdebstrap", "--quiet", "--variant=minbase", "--include=" + ",".join(("ca-certificates",) + packages), release(),
               folder, site)
    for name in glob.glob("/etc/apt/apt.conf.d/99*"):  # proxies and time-outs of this machine
        shutil.copy(name, folder + "/etc/apt/apt.conf.d/")
    for name in ("/etc/resolv.conf", "/etc/hosts"):
        shutil.copy(name, folder + name)
    os.chmod(folder, 0o755)
    shutil.copy(deb(), folder + "/opt/presence.deb")
    inside(folder, *APT, "update")
    return folder


def inside(folder, *command):
    return checks.run("chroot", folder, *command, env=CLEAN)


def needs(there, reason):
    """A decorator of tests: skipped with this reason where there() is nothing."""
    def decorate(test):
        def wrapped():
            if there() is None:
                raise checks.Skip(reason)
            test()
        wrapped.__name__ = test.__name__
        return wrapped
    return decorate
