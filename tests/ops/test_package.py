#!/usr/bin/python3
"""What `make install` and `make deb` bring, as `make ops-ready` has just made it from the debug build."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.environ["PRESENCE_ROOT"] + "/tests/ops")
import checks  # noqa: E402

INSTALLED = checks.BUILD + "/ops-root"  # with PREFIX=/opt/presence
PROGRAMS = ("presenced", "presencectl", "presence-sim")
FILES = {
    "bin/presence-sim", "bin/presencectl", "bin/presenced",
    "lib/systemd/system/presenced.service", "lib/systemd/system/presenced@.service", "lib/sysusers.d/presence.conf",
    "share/bash-completion/completions/presence-sim", "share/bash-completion/completions/presencectl",
    "share/bash-completion/completions/presenced",
    "share/doc/presence/README.md", "share/doc/presence/RUNBOOK.md", "share/doc/presence/copyright",
    "share/doc/presence/examples/presence.conf", "share/doc/presence/examples/presence.json",
    "share/doc/presence/examples/presence.rules.yml", "share/doc/presence/examples/redis.conf",
    "share/doc/presence/examples/scrape.yml",
}
PAGES = {"share/man/man1/presence-sim.1", "share/man/man1/presencectl.1", "share/man/man8/presenced.8"}


def deb():
    (package,) = glob.glob(checks.BUILD + "/deb/*.deb")
    return package


def field(name):
    return checks.run("dpkg-deb", "-f", deb(), name).strip()


def installed(*parts):
    return os.path.join(INSTALLED + "/opt/presence", *parts)


def with_zsh(place):
    return FILES | {f"share/zsh/{place}/_presencectl"}


def test_install_brings_exactly_these_files():
    found = {os.path.relpath(os.path.join(folder, name), installed()) for folder, _, names in os.walk(installed()) for name in names}
    wanted = with_zsh("site-functions") | PAGES | {"share/doc/presence/LICENSE", "share/doc/presence/CHANGELOG.md"}
    assert found == wanted, f"missing {sorted(wanted - found)}, too much {sorted(found - wanted)}"
    assert os.listdir(INSTALLED) == ["opt"], "something was installed outside PREFIX"


def test_deb_brings_exactly_these_files():
    lines = checks.run("dpkg-deb", "-c", deb()).splitlines()
    found = {line.split()[5][len("./usr/"):] for line in lines if not line.startswith("d")}
    wanted = with_zsh("vendor-completions") | {page + ".gz" for page in PAGES} | {
        "share/doc/presence/changelog.gz", "share/doc/presence/changelog.Debian.gz", "share/lintian/overrides/presence"}
    assert found == wanted, f"missing {sorted(wanted - found)}, too much {sorted(found - wanted)}"
    for line in lines:
        mode, owner = line.split()[:2]
        assert owner == "root/root", line
        assert mode in ("drwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx") or (mode == "-rwxr-xr-x" and "/usr/bin/" in line), line


def test_deb_depends_on_what_is_linked():
    depends = field("Depends")
    for library in ("libc6", "libpq5", "libjansson4", "libssl3", "libcurl"):
        assert library in depends, f"no {library} in {depends}"
    for library in ("hiredis", "microhttpd", "cmocka", "asan"):
        assert library not in depends, f"{library} in {depends}"


def test_version_sorts_before_its_release():
    version = field("Version")
    number = re.search(r"^## ([\d.]+)", checks.read("CHANGELOG.md"), re.M).group(1)
    assert version == number or version.startswith(number + "~git"), version
    checks.run("dpkg", "--compare-versions", version, "le", number)
    checks.run("dpkg", "--compare-versions", "0.0.0", "lt", version)
    for program in PROGRAMS:
        assert checks.run(installed("bin", program), "--version") == f"{program} {version}\n"


def test_maintainer_scripts_start_nothing():
    with tempfile.TemporaryDirectory() as folder:
        checks.run("dpkg-deb", "-e", deb(), folder)
        scripts = [name for name in sorted(os.listdir(folder)) if name not in ("control", "md5sums")]
        assert scripts == ["postinst", "postrm", "prerm"], scripts
        for name in scripts:
            text = open(os.path.join(folder, name), encoding="utf-8").read()
            checks.run("sh", "-n", os.path.join(folder, name))
            assert not re.search(r"systemctl (start|enable|restart)", text), f"{name} starts or enables a unit"


def test_copyright_names_what_is_in_the_programs():
    text = checks.run("sh", "-c", f"dpkg-deb --fsys-tarfile {deb()} | tar -xO ./usr/share/doc/presence/copyright")
    assert re.search(r"libmicrohttpd \d+\.\d+\.\d+", text) and re.search(r"hiredis \d+\.\d+\.\d+", text), text[:600]
    for licence in ("Apache-2.0", "LGPL-2.1+", "BSD-3-clause", "Expat"):
        assert f"\nLicense: {licence}\n " in text, f"no text of {licence}"


def test_manual_pages_are_clean():
    for page in sorted(PAGES):
        if shutil.which("mandoc"):
            checks.run("mandoc", "-T", "lint", "-W", "warning", installed(page))
        text = open(installed(page), encoding="utf-8").read()
        assert not re.search(r"^@[A-Z]+@$|@DATE@", text, re.M), f"{page}: a part is missing"
    if not shutil.which("mandoc"):
        raise checks.Skip("mandoc is not here")


def test_manual_pages_name_all_options_and_commands():
    page = open(installed("share/man/man8/presenced.8"), encoding="utf-8").read()
    for variable in checks.option_variables():
        name = variable[len("PRESENCE_"):].lower().replace("_", "-")
        assert f".It Fl -{name} " in page, f"presenced(8) lacks {name}"
    for route in checks.routes():
        assert f"Pa {route}\n" in page, f"presenced(8) lacks {route}"
    page = open(installed("share/man/man1/presencectl.1"), encoding="utf-8").read()
    for noun, verb in re.findall(r'^COMMAND\(\w+, "(\w+)", "(\w*)"', checks.read("service/cli/commands.def"), re.M):
        assert f'.It Sy "{(noun + " " + verb).strip()}" ' in page, f"presencectl(1) lacks {noun} {verb}"
    page = open(installed("share/man/man1/presence-sim.1"), encoding="utf-8").read()
    for name in re.findall(r'^SIM_\w+\(\w+, "([\w-]+)"', checks.read("service/tools/sim_options.def"), re.M):
        assert f".It Fl -{name}" in page, f"presence-sim(1) lacks {name}"


def bash(line):
    """What bash offers for the last word of the line."""
    script = '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _presence "$1" "${@: -1}" "${COMP_WORDS[COMP_CWORD - 1]}"; ' \
             'printf "%s\\n" "${COMPREPLY[@]}"'
    file = installed("share/bash-completion/completions/presencectl")
    return set(checks.run("bash", "-euc", script, file, *line.split(" ")).split())


def zsh(line):
    """What zsh offers for the last word of the line; compadd itself works in an interactive shell only."""
    script = 'file=$0; words=("$@"); CURRENT=$#; service=$1; autoload -Uz $file; ' \
             'compadd() { shift; for word; do [[ $word != $words[CURRENT]* ]] || print -r -- $word; done; }; ${file:t}'
    return set(checks.run("zsh", "-fuc", script, installed("share/zsh/site-functions/_presencectl"), *line.split(" ")).split())


def test_bash_offers_what_there_is():
    offers_what_there_is(bash)


def test_zsh_offers_what_there_is():
    if not shutil.which("zsh"):
        raise checks.Skip("zsh is not here")
    offers_what_there_is(zsh)


def offers_what_there_is(completions):
    options = {"--" + name[len("PRESENCE_"):].lower().replace("_", "-") for name in checks.option_variables()}
    assert completions("presenced --") == options | {"--config", "--help", "--version"}
    assert completions("presenced --redis-mode ") == {"auto", "native", "hpexpire", "compat"}
    assert completions("presenced --log-level w") == {"warn"}
    nouns = set(re.findall(r'^COMMAND\(\w+, "(\w+)"', checks.read("service/cli/commands.def"), re.M))
    assert completions("presencectl ") == nouns
    assert completions("presencectl --json tenant ") == {"create", "set", "list", "show", "delete"}
    assert completions("presencectl tenant create --max-") == {"--max-ttl-ms", "--max-devices", "--max-connections"}
    assert completions("presencectl status --j") == {"--json"}
    assert "--tenant" in completions("presence-sim --")


def test_sample_configuration_is_read():
    sample = open(installed("share/doc/presence/examples/presence.conf"), encoding="utf-8").read()
    names = set(re.findall(r"^#(\w+) = ", sample, re.M))
    assert names == {name[len("PRESENCE_"):].lower() for name in checks.option_variables()}
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(re.sub(r"^#(\w+ = )", r"\1", sample, flags=re.M) + "\n")
        file.flush()
        done = subprocess.run([installed("bin/presencectl"), "status", "--config", file.name, "--postgres-url", "host=/nowhere",
                               "--redis-url", "unix:///nowhere"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 1, f"the file was not accepted: {done.stdout}"


def units():
    """Both units with programs that are there, in a folder of their own."""
    folder = tempfile.mkdtemp()
    for name in ("presenced.service", "presenced@.service"):
        text = open(installed("lib/systemd/system", name), encoding="utf-8").read()
        assert "ExecStart=/opt/presence/bin/presenced\n" in text, name
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text.replace("/opt/presence/", installed() + "/"))
    return folder


def test_units_have_one_definition():
    plain, instance = (open(installed("lib/systemd/system", name), encoding="utf-8").read().splitlines()
                       for name in ("presenced.service", "presenced@.service"))
    more = [line for line in instance if line not in plain]
    assert more == ["Description=Presence service (%i)", "EnvironmentFile=/etc/presence/%i.env"], more
    assert "Type=notify" in plain and "User=presence" in plain


def test_units_are_valid_and_hardened():
    if not shutil.which("systemd-analyze"):
        raise checks.Skip("systemd-analyze is not here")
    folder = units()
    checks.run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", folder + "/presenced.service",
               folder + "/presenced@.service")
    print(checks.run("systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=19",
                     folder + "/presenced.service").splitlines()[-1])
    shutil.rmtree(folder)


checks.main(
    test_install_brings_exactly_these_files,
    test_deb_brings_exactly_these_files,
    test_deb_depends_on_what_is_linked,
    test_version_sorts_before_its_release,
    test_maintainer_scripts_start_nothing,
    test_copyright_names_what_is_in_the_programs,
    test_manual_pages_are_clean,
    test_manual_pages_name_all_options_and_commands,
    test_bash_offers_what_there_is,
    test_zsh_offers_what_there_is,
    test_sample_configuration_is_read,
    test_units_have_one_definition,
    test_units_are_valid_and_hardened,
)
