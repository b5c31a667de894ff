"""`netesto run --on slurm[:PARTITION]`: a scheduler of the run's own on this machine, and one job
array of Slurm, whose every task is `netesto worker` on a node of its own.

    this process ─┬─ dask scheduler ── netesto worker, on node 1 … N
                  └─ sbatch --array=1-N; at the end scancel

The certificate of both is made for this run; workers have it from their batch script, which Slurm
shows to nobody else. All ends with the run. If this process is killed, so does the scheduler, and
without it the workers.
"""

import contextlib
import math
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from distributed import Security

from netesto.errors import MissingError, ProcessError
from netesto.run.cluster import Address
from netesto.system import interrupts, owned, process

NAME = "slurm"

_PROGRAMS = {
    "sbatch": "slurm-client",
    "scancel": "slurm-client",
    "sinfo": "slurm-client",
    "squeue": "slurm-client",
    "openssl": "openssl",
}

# Usual limits of a job array: MaxArraySize is 1001.
_MOST_NODES = 1000

# Slurm's controller may be busy.
_TIMEOUT_S = 30.0

_ANNOUNCEMENT = "Scheduler at:"

# A key that is used for one run.
_CERTIFICATE = (
    *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    *("-nodes", "-days", "365", "-subj", "/CN=netesto", "-keyout", "-"),
)

# A worker on a node. Its output is kept on the node if it fails before it is cancelled.
_SCRIPT = """\
#!/bin/sh
umask 077
folder=$(mktemp -d) || exit 1
output=/tmp/netesto-slurm-${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID.out
trap 'rm -rf "$folder"' EXIT
trap 'rm -f "$output"; exit 143' TERM
cat >"$folder/tls.pem" <<'END'
{certificate}
END
{variables}
set -- {python}
[ -x "$1" ] || set -- netesto
"$@" worker {address} &
wait $! && rm -f "$output"
"""


def partition_of(on: str) -> str | None:
    """The partition that `--on` names, "" for the usual one; None if it is not about Slurm."""
    name, _, partition = on.partition(":")
    return partition if name == NAME else None


def check_programs() -> None:
    """MissingError if this machine cannot submit jobs."""
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        packages = " ".join(sorted({_PROGRAMS[name] for name in missing}))
        raise MissingError(
            f"--on slurm: missing programs: {', '.join(missing)}",
            remedy=f"Run it where jobs are submitted; in Debian: apt install {packages}",
        )


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job array of workers, by its number in Slurm, for a scheduler at `address`."""

    address: Address
    job: str
    nodes: int

    @property
    def remedy(self) -> str:
        """What to do if no worker can be used."""
        return (
            f"What workers of Slurm job {self.job} have printed is in"
            f" /tmp/netesto-slurm-{self.job}_*.out on their nodes. They need this netesto:"
            f" {sys.executable}, or else netesto on the PATH."
        )

    def may_get_more(self, workers: int) -> bool:
        """Whether more than so many workers may come."""
        words = ["squeue", "--noheader", "--array", "--jobs", self.job, "--format", "%T"]
        found = process.run(words, timeout=_TIMEOUT_S, check=False)
        # Slurm forgets jobs that have ended: an error then.
        return found.status == 0 and len(found.stdout.split()) > workers


@contextlib.contextmanager
def submitted(partition: str, *, parts: int, jobs: int | None) -> Iterator[Submitted]:
    """Within this, there is a scheduler, and workers come for so many parts, of which `jobs` run at
    a time. MissingError if Slurm refuses that."""
    nodes = _nodes(partition, parts=parts, jobs=jobs)
    with (
        owned.temporary_folder() as folder,
        contextlib.ExitStack() as stack,
    ):
        pem = folder / "tls.pem"
        certificate = _checked(_CERTIFICATE).stdout
        pem.touch(mode=0o600)
        pem.write_text(certificate, encoding="ascii")
        address = stack.enter_context(_scheduler(pem))
        script = _SCRIPT.format(
            certificate=certificate.strip(),
            variables="\n".join(
                f'export {variable}="$folder/tls.pem"' for variable in _variables("")
            ),
            python=shlex.join(process.python("netesto")),
            address=shlex.quote(address.text),
        )
        words = [
            *("sbatch", "--parsable", f"--array=1-{nodes}", "--job-name=netesto"),
            # A guest is bound to a processor, and workers do not know of each other.
            *("--nodes=1", "--exclusive", "--mem=0"),
            *("--chdir=/tmp", "--output=/tmp/netesto-slurm-%A_%a.out"),
            *([f"--partition={partition}"] if partition else []),
        ]
        with interrupts.deferred():
            job = _checked(words, stdin=script).stdout.strip().partition(";")[0]
            stack.callback(_cancel, job)
        yield Submitted(address, job, nodes)


def _checked(argv: Sequence[str], stdin: str | None = None) -> process.CompletedCommand:
    try:
        return process.run(argv, timeout=_TIMEOUT_S, stdin=stdin)
    except ProcessError as error:
        raise MissingError(f"--on slurm: {error}") from error


def _cancel(job: str) -> None:
    with interrupts.deferred():
        process.run(["scancel", job], timeout=_TIMEOUT_S, check=False)


def _nodes(partition: str, *, parts: int, jobs: int | None) -> int:
    """How many nodes to ask for: no more than there are, nor than so many parts can use."""
    words = ["sinfo", "--noheader", "--responding", "--format", "%D %c %P"]
    lines = _checked([*words, *([f"--partition={partition}"] if partition else [])]).stdout
    groups = [line.split() for line in lines.splitlines()]
    # The usual partition is marked by an asterisk, the smallest node of a group by a plus sign.
    groups = [group for group in groups if partition or group[2].endswith("*")]
    nodes = sum(int(group[0]) for group in groups)
    if not nodes:
        raise MissingError(
            f"--on slurm: no node of partition {partition} responds"
            if partition
            else "--on slurm: no usual partition with nodes that respond",
            remedy="Name one of `sinfo`: --on slurm:PARTITION",
        )
    processors = min(int(group[1].removesuffix("+")) for group in groups)
    at_once = min(parts, jobs or parts)
    return max(1, min(nodes, math.ceil(at_once / processors), _MOST_NODES))


def _variables(pem: str) -> dict[str, str]:
    """Dask's configuration of TLS, with one certificate for all, as environment variables."""
    prefix = "DASK_DISTRIBUTED__COMM__TLS__"
    names = ["CA_FILE", *(f"{role}__CERT" for role in ("SCHEDULER", "WORKER", "CLIENT"))]
    return {f"{prefix}{name}": pem for name in names}


@contextlib.contextmanager
def _scheduler(pem: Path) -> Iterator[Address]:
    """A scheduler on this machine, for whoever has the certificate."""
    log = pem.with_name("scheduler.log")
    words = ["scheduler", "--protocol", "tls", "--port", "0", "--no-dashboard"]
    # It has pages for whoever reaches them, even so.
    words += ["--dashboard-address", "127.0.0.1:0"]
    # A cell that ends two workers has failed.
    env = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    try:
        with process.background(
            process.tethered([*process.python("dask"), *words]),
            stdout=log,
            ready=lambda: _ANNOUNCEMENT in log.read_text(encoding="utf-8"),
            timeout=_TIMEOUT_S,
            env=os.environ | env | _variables(str(pem)),
        ):
            text = log.read_text(encoding="utf-8").partition(_ANNOUNCEMENT)[2].split()[0]
            path = str(pem)
            security = Security(require_encryption=True, tls_ca_file=path, tls_client_cert=path)
            yield Address(text, security)
    except ProcessError as error:
        raise MissingError(f"--on slurm: the scheduler does not start: {error}") from error
