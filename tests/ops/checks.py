"""What the scripts of this folder share: saying verdicts as cmocka does, for tests/run, and the program's own tables."""
import os
import re
import subprocess
import sys
import traceback

ROOT = os.environ["PRESENCE_ROOT"]
BUILD = os.environ["PRESENCE_BUILD_DIR"]
DEPS = os.environ.get("PRESENCE_DEPS_DIR", os.path.join(ROOT, ".local/deps"))


class Skip(Exception):
    """Raised by a test that cannot be had here; its text says why."""


def path(*parts):
    return os.path.join(ROOT, *parts)


def read(*parts):
    with open(path(*parts), encoding="utf-8") as file:
        return file.read()


def run(*command, **options):
    """Runs a program to its end; fails the test with what it said where its exit status is not 0."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    assert done.returncode == 0, f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}"
    return done.stdout


def option_variables():
    """The variables of service/options.def."""
    return set(re.findall(r"^\| `(PRESENCE_\w+)`", run(BUILD + "/presenced", "--print-docs", "options"), re.M))


def metrics():
    """The metrics of service/metrics.def: name -> (type, set of labels)."""
    rows = re.findall(r"^\| `(\w+)(?:\{([\w,]+)\})?` \| (\w+) \|", run(BUILD + "/presenced", "--print-docs", "metrics"), re.M)
    return {name: (kind, set(filter(None, labels.split(",")))) for name, labels, kind in rows}


def routes():
    """The paths of service/http/routes.def."""
    return set(re.findall(r'^ROUTE\(\w+, \w+, "([^"]+)"', read("service/http/routes.def"), re.M))


def main(*tests):
    counts = {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}
    for test in tests:
        print(f"[ RUN      ] {test.__name__}", flush=True)
        try:
            test()
            word, verdict = "PASSED", "      OK"
        except Skip as why:
            word, verdict = "SKIPPED", " SKIPPED"
            print(f"skipped: {why}")
        except Exception:  # a test that breaks has failed
            word, verdict = "FAILED", " FAILED "
            traceback.print_exc(file=sys.stdout)
        counts[word] += 1
        print(f"[ {verdict} ] {test.__name__}", flush=True)
    for word, number in counts.items():
        print(f"[  {word}  ] {number} test(s).")
    sys.exit(1 if counts["FAILED"] else 0)
