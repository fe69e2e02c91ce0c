"""Checks the manifests of deploy/kubernetes against the schemas of the Dask operator.

    python .ci/validate_manifests.py dask_kubernetes-*.whl

The operator's wheel holds its resource definitions. Its schemas admit unknown fields, which Kubernetes would drop
without a word; here they are errors, so that a misspelled field is found.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import yaml

CRDS = "dask_kubernetes/operator/deployment/helm/dask-kubernetes-operator/crds/"
MANIFESTS = Path(__file__).resolve().parent.parent / "deploy" / "kubernetes"


def schemas(wheel: Path) -> dict[str, Any]:
    """The schema of each kind of resource."""
    found = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(CRDS) and name.endswith(".yaml"):
                spec = yaml.safe_load(archive.read(name))["spec"]
                found[spec["names"]["kind"]] = spec["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def strict(schema: Any) -> Any:
    """The schema with unknown fields refused, and Kubernetes' own "integer or string" spelled out."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    out = {key: strict(value) for key, value in schema.items()}
    if "properties" in schema and "additionalProperties" not in schema:
        out["additionalProperties"] = False
    return out


def check(path: Path, kinds: dict[str, Any]) -> list[str]:
    """Faults of a file."""
    problems = []
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        kind = document["kind"]
        schema = strict(kinds[kind])
        schema["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {"type": "object", "required": ["name"]}}
        problems += [
            f"{path.name}: {kind}: {'.'.join(map(str, error.path))}: {error.message}"
            for error in jsonschema.Draft7Validator(schema).iter_errors(document)
        ]
        problems.extend(_unlike_the_rest(path, document))
    return problems


def _unlike_the_rest(path: Path, document: Any) -> list[str]:
    """Faults that no schema finds: a process with privileges, a worker without GPU, a service without its scheduler."""
    problems = []
    spec = document["spec"]
    cluster = spec["cluster"]["spec"] if document["kind"] == "DaskJob" else spec
    pods = [cluster["scheduler"]["spec"], cluster["worker"]["spec"], *([spec["job"]["spec"]] if "job" in spec else [])]
    if not all(pod["securityContext"]["runAsNonRoot"] for pod in pods):
        problems.append(f"{path.name}: a pod may run as root")
    limits = [container["resources"]["limits"] for container in cluster["worker"]["spec"]["containers"]]
    if any(limit.get("nvidia.com/gpu") != "1" for limit in limits):
        problems.append(f"{path.name}: a worker without a limit of one GPU")
    selector = cluster["scheduler"]["service"]["selector"]["dask.org/cluster-name"]
    if selector != document["metadata"]["name"]:
        problems.append(f"{path.name}: the service looks for cluster {selector}")
    return problems


def main() -> None:
    kinds = schemas(Path(sys.argv[1]))
    files = sorted(MANIFESTS.glob("*.yaml"))
    assert files, MANIFESTS
    problems = [problem for file in files for problem in check(file, kinds)]
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(files)} manifests fit the operator's schemas ({', '.join(sorted(kinds))})")


if __name__ == "__main__":
    main()
