"""Checks the files of deploy/ that no test can run: Kubernetes manifests by their schemas, Traefik's and Envoy's files by lists
of their keys (Tests/scenarios/operators/deploy-files.sh).

  deploy_files.py FOLDER            a line for each file, `ok N - …` or `not ok N - …`; FOLDER is deploy or a copy of it
"""

import pathlib
import sys

import yaml
from deploy_kubernetes import kubernetes_faults
from deploy_proxies import proxy_faults

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    files = [(path, kubernetes_faults) for path in sorted(folder.glob("kubernetes/*/*.yaml")) if path.name != "coatcheck.yaml"]
    files += [(path, proxy_faults) for name in ("proxy", "forward-auth") for path in sorted(folder.glob(f"{name}/*.yaml"))]
    bad = 0
    for number, (path, look) in enumerate(files, 1):
        try:
            faults = look(path)
        except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
            faults = [f"{type(error).__name__}: {error}".splitlines()[0]]
        text = path.read_text()
        if path.parent.name == "proxy" and "NOT RUN HERE" not in text:
            faults.append("the words NOT RUN HERE are missing")
        bad += bool(faults)
        print(f"{'not ok' if faults else 'ok'} {number} - {path.relative_to(folder)}" + (f": {'; '.join(faults)}" if faults else " → has no fault"))
    sys.exit(bad > 0 or len(files) < 12)
