"""A run of pings whose replies come 5 ms before the next request: python pinging.py FILE."""

import asyncio
import sys
from ipaddress import IPv4Address
from pathlib import Path

from netesto.collectors import ping
from netesto.system import process

REQUESTS = 20


async def main(path: Path) -> None:
    process.run(["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "47.5ms"], timeout=60)
    collector = ping.PingCollector(path, IPv4Address("127.0.0.1"), 0.1)
    await collector.start()
    await asyncio.sleep(0.1 * REQUESTS)
    await collector.stop()


asyncio.run(main(Path(sys.argv[1])))
