"""The state of TCP sockets, in the words of ss(8): cwnd, RTT, retransmits, bytes acknowledged.

The file of a collector holds, for each tick, a line `@BEFORE AFTER` with the instants at which the
kernel was asked and had answered (UTC seconds), then a line for each socket as `ss -tiOHn` prints
it (see sockdiag). The time of these samples is the middle, wrong by at most half the difference.
Between ticks stand sockets that ceased to be, in the state CLOSE, with what they had counted (see
sockclosed) and the instant at which we heard of it.

The counters of segments need Linux 4.6, those of bytes sent 4.19.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from netesto import units
from netesto.collectors.base import Sampler, Warn
from netesto.collectors.clock import Clock
from netesto.collectors.sockclosed import ClosedSockets
from netesto.collectors.sockdiag import SocketDiagnosis
from netesto.errors import OutputError
from netesto.model import SocketSample

# State, two queues, two addresses: what stands before tcp_info in a line of ss -t.
_COLUMNS = 5

# Words without a value that ss prints before the name of the congestion control.
_FLAGS = frozenset({"ts", "usec_ts", "sack", "ecn", "ecnseen", "fastopen"})

# Words with their value behind a blank instead of a colon.
_RATES = frozenset({"pacing_rate", "delivery_rate"})

_RATE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)bps")


class SocketCollector(Sampler):
    """Samples the TCP sockets of all watched ports, with one look for each tick."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        interval_s: float,
        *,
        on_samples: Callable[[list[SocketSample]], None] | None = None,
        on_warning: Warn | None = None,
        diagnosis: Callable[[], SocketDiagnosis] = SocketDiagnosis,
    ) -> None:
        super().__init__(path, clock, interval_s, on_warning=on_warning)
        self._on_samples = on_samples
        self._ports: set[int] = set()
        self._open_diagnosis = diagnosis
        self._diagnosis: SocketDiagnosis | None = None
        # The ports whose sockets' ends we listen to, and what was heard since the last tick.
        self._ending_ports: set[int] = set()
        self._closed: ClosedSockets | None = None
        self._heard = b""

    def watch(self, ports: Iterable[int], *, to_the_end: bool = True) -> None:
        """From the next tick on, sample the sockets with one of these ports at either end.

        `to_the_end`: also what they had counted when they ceased to be, until the collector stops;
        not for tests that close thousands in a second.
        """
        ports = set(ports)
        self._ports |= ports
        self._listen(self._ending_ports | ports if to_the_end else self._ending_ports - ports)

    def unwatch(self, ports: Iterable[int]) -> None:
        """No longer sample these ports."""
        self._ports.difference_update(ports)

    async def start(self) -> None:
        try:
            self._closed = ClosedSockets()
        except OSError as error:
            self._warn(f"the last state of sockets is not known: {error.strerror}")
        else:
            self._listen(self._ending_ports)
            asyncio.get_running_loop().add_reader(self._closed.fileno(), self._hear)
        await super().start()

    def _listen(self, ports: set[int]) -> None:
        self._ending_ports = ports
        if self._closed is None:
            return
        try:
            self._closed.listen_to(_ranges(ports))
        except OSError as error:
            self._warn(f"the last state of some sockets is missing: {error.strerror}")

    def _hear(self) -> None:
        if self._closed is None:
            return
        time_s = self._clock.now()
        lines: list[str] = []
        try:
            # It keeps what came before an error.
            lines.extend(f"{line}\n" for line in self._closed.heard())
        except OSError as error:
            self._warn(f"the last state of some sockets is missing: {error.strerror}")
        if lines:
            self._heard += f"@{time_s:.6f} {time_s:.6f}\n{''.join(lines)}".encode()

    def _last(self) -> bytes:
        self._hear()
        heard, self._heard = self._heard, b""
        return heard

    async def _look(self) -> bytes:
        return self._last() + self._sample()

    def _sample(self) -> bytes:
        if not self._ports:
            return b""
        try:
            if self._diagnosis is None:
                self._diagnosis = self._open_diagnosis()
            before_s = self._clock.now()
            lines = self._diagnosis.sockets(_ranges(self._ports))
        except OSError as error:
            self._warn(f"socket samples are missing: {error.strerror}")
            return b""
        after_s = self._clock.now()
        text = "".join(f"{line}\n" for line in lines)
        self._tell(text, _middle(before_s, after_s))
        return f"@{before_s:.6f} {after_s:.6f}\n{text}".encode()

    async def stop(self) -> None:
        await super().stop()
        if self._closed is not None:
            asyncio.get_running_loop().remove_reader(self._closed.fileno())
            self._closed.close()
            self._closed = None
        if self._diagnosis is not None:
            self._diagnosis.close()
            self._diagnosis = None

    def _tell(self, text: str, time_s: float) -> None:
        if self._on_samples is None:
            return
        try:
            samples = parse(text, time_s)
        except OutputError as error:
            self._warn(str(error))
            return
        self._on_samples(samples)


def _ranges(ports: Iterable[int]) -> list[tuple[int, int]]:
    """Neighbours together, for a short filter: 5, 7, 6, 9 are (5, 7) and (9, 9)."""
    ranges: list[tuple[int, int]] = []
    for port in sorted(set(ports)):
        if ranges and port == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], port)
        else:
            ranges.append((port, port))
    return ranges


def read(path: Path, *, ahead_s: float = 0.0) -> list[SocketSample]:
    """The samples in a collector's file, in time order; a last line cut short is left out.

    Their clock was `ahead_s` ahead of the one that their times shall be of. OutputError names the
    line that ss should not have printed.
    """
    samples: list[SocketSample] = []
    time_s: float | None = None
    whole = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")[0]
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            if line.startswith("@"):
                before, after = line[1:].split()
                time_s = _middle(float(before), float(after)) - ahead_s
            elif line.strip() and time_s is not None:
                samples.append(_sample(line, time_s))
        except (ValueError, OutputError) as error:
            raise OutputError(f"{path}:{number}: {error}") from None
    return samples


def parse(text: str, time_s: float) -> list[SocketSample]:
    """The samples in what `ss -tiOHn` printed at `time_s`. OutputError if a line is no socket.

    ss leaves out what is 0. Counters and quantities that are not there are therefore 0; what
    cannot be 0, such as an RTT, is None; `ssthresh` is None while it is infinite.
    """
    return [_sample(line, time_s) for line in text.splitlines() if line.strip()]


def _middle(before_s: float, after_s: float) -> float:
    return before_s + (after_s - before_s) / 2


def _sample(line: str, time_s: float) -> SocketSample:
    words = line.split()
    try:
        state, receive_queue, send_queue, local, peer = words[:_COLUMNS]
        values = _values(words[_COLUMNS:])
        rtt, rttvar = _pair(values.get("rtt"))
        # tcp_info is missing for a socket that closed while ss looked at it.
        has_info = "cwnd" in values
        absent = "0" if has_info else None
        in_flight, total = _pair(values.get("retrans", "0/0" if has_info else None))
        return SocketSample(
            time_s=time_s,
            local_port=_port(local),
            peer_port=_port(peer),
            state=state,
            congestion_control=_congestion_control(words[_COLUMNS:]),
            cwnd=_integer(values.get("cwnd")),
            ssthresh=_integer(values.get("ssthresh")),
            mss_bytes=_integer(values.get("mss")),
            rtt_ms=_decimal(rtt),
            rttvar_ms=_decimal(rttvar),
            min_rtt_ms=_decimal(values.get("minrtt")),
            unacked=_integer(values.get("unacked", absent)),
            lost=_integer(values.get("lost", absent)),
            retransmits=_integer(in_flight),
            total_retransmits=_integer(total),
            segments_out=_integer(values.get("segs_out", absent)),
            data_segments_out=_integer(values.get("data_segs_out", absent)),
            bytes_sent=_integer(values.get("bytes_sent", absent)),
            bytes_acked=_integer(values.get("bytes_acked", absent)),
            bytes_received=_integer(values.get("bytes_received", absent)),
            pacing_rate_bps=_rate(values.get("pacing_rate")),
            delivery_rate_bps=_rate(values.get("delivery_rate")),
            send_queue_bytes=int(send_queue),
            receive_queue_bytes=int(receive_queue),
        )
    except ValueError:
        raise OutputError(f"ss printed a line that is no socket: {line.strip()!r}") from None


def _values(words: list[str]) -> dict[str, str]:
    """`rtt:8.3/0.4` and `pacing_rate 6604000bps` by name; the first of a name counts."""
    # Long experiments have hundreds of thousands of these lines.
    values = dict(word.split(":", 1) for word in reversed(words) if ":" in word)
    for name in _RATES.intersection(words):
        following = words[words.index(name) + 1 :]
        if following:
            values[name] = following[0]
    return values


def _congestion_control(words: list[str]) -> str:
    """The first bare word that is no flag, before tcp_info begins with `wscale:` or `rto:`."""
    for word in words:
        if word.startswith(("wscale:", "rto:")):
            break
        if ":" not in word and word not in _FLAGS:
            return word
    return ""


def _port(address: str) -> int:
    """The port of `10.0.0.1:80`, `[fe80::1]%eth0:80` or `[::ffff:10.0.0.1]:80`."""
    return int(address.rpartition(":")[2])


def _pair(text: str | None) -> tuple[str | None, str | None]:
    if text is None:
        return None, None
    first, _, second = text.partition("/")
    return first, second or None


def _integer(text: str | None) -> int | None:
    return None if text is None else int(text)


def _decimal(text: str | None) -> float | None:
    return None if text is None else float(text)


def _rate(text: str | None) -> float | None:
    """`6604000bps`, older ss: `6.6Mbps`; of `pacing_rate 6.6Mbps/9.9Mbps` the rate, not its cap."""
    if text is None:
        return None
    match = _RATE.match(text)
    if match is None:
        raise ValueError(text)
    return float(match[1]) * units.THOUSANDS[match[2]]
