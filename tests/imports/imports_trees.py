"""Trees in the form of the testing harness, with plain numbers chosen by each test."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FIELDS = ("usr", "nice", "sys", "iowait", "irq", "soft", "steal", "guest", "gnice", "idle")
DATE = "2024-03-01:10:00"


def document(
    gbit_per_s: float,
    *,
    retransmits: int = 0,
    ca: str = "cubic",
    received: float | None = None,
    streams: int = 1,
    seconds: int = 2,
    mss: int = 8948,
    host: str = "10.3.54.2",
) -> dict[str, object]:
    """What iperf3 3.12 prints with -J, of a run of some seconds."""
    bps = gbit_per_s * 1e9
    sums = {"start": 0, "end": seconds, "seconds": seconds, "bytes": int(bps * seconds / 8)}
    sent = {**sums, "bits_per_second": bps, "retransmits": retransmits, "sender": True}
    got = bps if received is None else received * 1e9
    return {
        "start": {
            "connected": [
                {
                    "socket": 5 + stream,
                    "local_host": "10.3.54.1",
                    "local_port": 40000 + stream,
                    "remote_host": host,
                    "remote_port": 5201,
                }
                for stream in range(streams)
            ],
            "version": "iperf 3.12",
            "system_info": "Linux dtn1 6.8.0-31-generic #31 SMP x86_64",
            "timestamp": {"timesecs": 1709287200},
            "connecting_to": {"host": host, "port": 5201},
            "tcp_mss_default": mss,
            "test_start": {
                "protocol": "TCP",
                "num_streams": streams,
                "omit": 0,
                "duration": seconds,
                "reverse": 0,
            },
        },
        "intervals": [
            {
                "streams": [
                    {
                        "socket": 5 + stream,
                        "start": second,
                        "end": second + 1,
                        "seconds": 1,
                        "bits_per_second": bps / streams,
                        "retransmits": retransmits if not (second or stream) else 0,
                        "snd_cwnd": 10 * mss,
                        "rtt": 1500,
                        "omitted": False,
                        "sender": True,
                    }
                    for stream in range(streams)
                ],
                "sum": {
                    "start": second,
                    "end": second + 1,
                    "seconds": 1,
                    "bits_per_second": bps,
                    "retransmits": 0,
                    "omitted": False,
                    "sender": True,
                },
            }
            for second in range(seconds)
        ],
        "end": {
            "streams": [],
            "sum_sent": sent,
            "sum_received": {**sums, "bits_per_second": got, "sender": False},
            "sender_tcp_congestion": ca,
            "receiver_tcp_congestion": ca,
        },
    }


def output(gbit_per_s: float, **other: object) -> str:
    """A document as a file."""
    return json.dumps(document(gbit_per_s, **other), indent="\t") + "\n"  # type: ignore[arg-type]


def failed(error: str) -> str:
    """The output with -J of a client that could not connect."""
    return json.dumps({"start": {"connected": []}, "intervals": [], "end": {}, "error": error})


Loads = Sequence[Mapping[str, Mapping[str, float]]]


def mpstat(samples: Loads, *, host: str = "dtn1") -> str:
    """A file of mpstat: of each sample the fields of each core, those that are 0 left out."""
    statistics = [
        {
            "timestamp": f"10:00:{second:02d}",
            "cpu-load": [
                {"cpu": cpu, **dict.fromkeys(FIELDS, 0.0), **fields}
                for cpu, fields in sample.items()
            ],
        }
        for second, sample in enumerate(samples)
    ]
    whole = {"nodename": host, "release": "6.8.0-31-generic", "statistics": statistics}
    return json.dumps({"sysstat": {"hosts": [whole]}}, indent="\t")


IDLE: Loads = [{"5": {"idle": 100.0}}] * 10


@dataclass(frozen=True)
class Tree:
    """A tree in a folder, to which tests add files. Sender and receiver are different branches."""

    root: Path
    date: str = DATE
    written: list[Path] = field(default_factory=list)

    def section(self, name: str, branch: str = "sender") -> Path:
        return self.root / branch / self.date / name if self.date else self.root / branch / name

    def file(self, section: str, name: str, text: str, branch: str = "sender") -> Path:
        path = self.section(section, branch) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.written.append(path)
        return path

    def run(self, section: str, number: int, text: str, *, host: str = "10.3.54.2") -> Path:
        return self.file(section, f"src-cmd:{host}:{number}", text)

    def cpu(
        self, side: str, section: str, number: int, text: str, *, host: str = "10.3.54.2"
    ) -> Path:
        name = f"mpstat-{side}:{host}:{number}.json"
        return self.file(section, name, text, branch=side)
