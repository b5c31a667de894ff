"""The tuning of a host: its processors, and the assignment of its test interface to them.

From sysfs (Documentation/ABI of Linux); facts that a machine lacks are omitted.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from netesto.collectors.cgroup import Quota

ROOT = Path("/")

# The parameters of the kernel's command line that influence the handling of packets.
_COMMAND_LINE = re.compile(
    r"(?:\w*iommu|mitigations|isolcpus|nohz\w*|rcu_nocbs|idle|processor\.\w+|intel_idle\.\w+|"
    r"intel_pstate|amd_pstate|\w*hugepages\w*|hugepagesz|clocksource|tsc|preempt)=\S+"
)

_ONE_FILE = {
    "SMT": "sys/devices/system/cpu/smt/control",
    "cpu idle driver": "sys/devices/system/cpu/cpuidle/current_driver",
    "cpu boost": "sys/devices/system/cpu/cpufreq/boost",
    "cpu no_turbo": "sys/devices/system/cpu/intel_pstate/no_turbo",
    "transparent huge pages": "sys/kernel/mm/transparent_hugepage/enabled",
}


def facts(device: str, *, root: Path = ROOT) -> dict[str, str]:
    """The facts of this host and its interface, by name."""
    found = dict(_processors(root)) | dict(_interface(root, device))
    found |= {name: text for name, path in _ONE_FILE.items() if (text := _text(root / path))}
    if quota := Quota.now(root):
        found["cpu quota"] = str(quota)
    return dict(sorted(found.items()))


def _processors(root: Path) -> Iterator[tuple[str, str]]:
    each_cpu = _numbered(root / "sys/devices/system/cpu", "cpu")
    cpus = [path for cpu in each_cpu if (path := cpu / "topology").exists()]
    packages = [_text(cpu / "physical_package_id") for cpu in cpus]
    cores = list(zip(packages, (_text(cpu / "core_id") for cpu in cpus), strict=True))
    if cpus:
        yield "cpu sockets", str(len(set(packages)))
        yield "threads per core", f"{len(cpus) / len(set(cores)):g}"
    if each := _distinct(cpu / "cpufreq/scaling_governor" for cpu in each_cpu):
        yield "cpu governors", each
    nodes = sorted(_numbered(root / "sys/devices/system/node", "node"), key=_number)
    if nodes:
        lists = (f"{_number(node)}: {_text(node / 'cpulist')}" for node in nodes)
        yield "NUMA nodes", "; ".join(lists)
    yield "IOMMU", " ".join(_names(root / "sys/class/iommu")) or "off"
    if words := _COMMAND_LINE.findall(_text(root / "proc/cmdline")):
        yield "kernel command line", " ".join(words)


def _interface(root: Path, device: str) -> Iterator[tuple[str, str]]:
    """For a hardware interface, these facts as well."""
    folder = root / "sys/class/net" / device
    queues = _names(folder / "queues")
    for kind, names in (("rx", "rps_cpus"), ("tx", "xps_cpus")):
        of_kind = [folder / "queues" / name for name in queues if name.startswith(f"{kind}-")]
        if of_kind:
            yield f"interface {kind} queues", str(len(of_kind))
        if masks := _distinct(queue / names for queue in of_kind):
            yield f"interface {names}", masks
    for name in ("mtu", "tx_queue_len", "speed"):
        if text := _text(folder / name):
            yield f"interface {name}", text
    if not (folder / "device").exists():
        return
    yield "interface driver", (folder / "device/driver").resolve().name
    if node := _text(folder / "device/numa_node"):
        yield "interface NUMA node", node
    irqs = sorted(_names(folder / "device/msi_irqs"), key=int)
    affinities = [_text(root / "proc/irq" / irq / "smp_affinity_list") for irq in irqs]
    if any(affinities):
        yield "interface IRQ affinity", " ".join(each or "?" for each in affinities)


def _distinct(paths: Iterable[Path]) -> str:
    """The different texts of files, joined by `/`."""
    texts = (_text(path) for path in sorted(paths, key=_number))
    return "/".join(dict.fromkeys(text for text in texts if text))


def _number(path: Path) -> int:
    """The number of a processor, node or queue in a path."""
    return int((re.findall(r"\d+", str(path)) or ["0"])[-1])


def _numbered(folder: Path, kind: str) -> list[Path]:
    """What a folder has of a kind: cpu0, cpu1 … Path.glob takes milliseconds of each host of a lab
    to compile its patterns."""
    names = (name for name in _names(folder) if name.startswith(kind))
    return [folder / name for name in names if name.removeprefix(kind).isdecimal()]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    """The text of a file on one line; "" if it cannot be read: some have a value only sometimes."""
    try:
        return " ".join(path.read_bytes().decode(errors="replace").split())
    except OSError:
        return ""
