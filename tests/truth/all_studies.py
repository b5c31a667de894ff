"""All studies of docs/truth.md."""

import aqm_cells as aqms
import flow_cells as flows
import link_cells as links
from carried import CARRIED
from steps import STEPS
from studies import Study, in_turn, side_by_side

STUDIES: tuple[Study, ...] = (
    side_by_side(
        "first",
        [
            links.idle("20mbit", delay_ms=5),
            links.idle("1mbit", delay_ms=1, links=4),
            flows.short("20mbit", rtt_ms=10),
            links.random_loss("20mbit", 1, 10_000),
            flows.hit("200mbit", 1, 400),
            links.overloaded("20mbit", "100p", 100),
            links.codel("2mbit", "codel", 6),
        ],
        run="test",
    ),
    side_by_side(
        "idle",
        [
            *(links.idle(rate, delay_ms=5) for rate in ("2mbit", "200mbit", "2gbit")),
            *(links.idle(rate, delay_ms=1, links=2) for rate in ("2mbit", "200mbit")),
            *(links.idle(rate, delay_ms=1, links=4) for rate in ("20mbit", "2gbit")),
        ],
    ),
    side_by_side(
        "loss",
        [
            links.random_loss("2mbit", 1, 10_000),
            links.random_loss("200mbit", 1, 10_000),
            links.random_loss("2gbit", 1, 10_000),
            links.random_loss("20mbit", 0.1, 20_000),
            links.random_loss("20mbit", 1, 10_000, links=2),
            links.random_loss("20mbit", 1, 10_000, links=4),
        ],
    ),
    side_by_side(
        "ways",
        [
            links.duplicated("20mbit", 1, 10_000),
            links.reordered("20mbit", 25, 10_000),
            links.corrupted("20mbit", 1, 10_000),
            links.jittered("50mbit", 20, 5, 10_000),
            links.bursts("20mbit", 1, 30, 20_000),
            links.bursts("200mbit", 2, 40, 20_000),
        ],
        run="ci",
    ),
    side_by_side(
        "rates",
        [
            *(links.duplicated(rate, 1, 10_000) for rate in ("2mbit", "200mbit", "2gbit")),
            *(links.reordered(rate, 25, 10_000) for rate in ("2mbit", "200mbit", "2gbit")),
            *(links.bursts(rate, 1, 30, 20_000) for rate in ("2mbit", "2gbit")),
            *(links.random_loss(rate, 0.1, 20_000) for rate in ("2mbit", "200mbit", "2gbit")),
            links.policed("2gbit"),
            links.codel("2mbit", "fq_codel", 6),
            links.codel("200mbit", "fq_codel", 1),
            links.codel("2gbit", "fq_codel", 0.4),
        ],
    ),
    side_by_side(
        "distributions",
        [
            links.distributed("50mbit", 20, 5, kind, 10_000)
            for kind in ("uniform", "normal", "pareto", "paretonormal")
        ],
    ),
    links.one_way(),
    side_by_side(
        "queues",
        [
            links.overloaded("2mbit", "20p", 20),
            links.overloaded("200mbit", "100p", 100),
            links.overloaded("2gbit", "1000p", 1000),
            links.overloaded("2mbit", "30K", 30000 // 1514),
            links.overloaded("20mbit", "100K", 100000 // 1514),
            links.overloaded("200mbit", "250K", 250000 // 1514),
            links.overloaded("2gbit", "2500K", 2500000 // 1514),
            links.overloaded("20mbit", "100p", 100, links=2),
            links.overloaded("20mbit", "100p", 100, links=4),
        ],
    ),
    side_by_side(
        "police", [links.policed(rate) for rate in ("2mbit", "20mbit", "200mbit")], run="ci"
    ),
    side_by_side(
        "codel",
        [
            links.codel("20mbit", "codel", 4),
            links.codel("200mbit", "codel", 1),
            links.codel("2gbit", "codel", 0.4),
            links.codel("20mbit", "fq_codel", 4),
            links.codel("20mbit", "codel", 0.4, setting="target=2 interval=20"),
            links.marked("20mbit", "codel", 3),
            links.marked("20mbit", "fq_codel", 3),
        ],
        run="ci",
    ),
    side_by_side(
        "equilibrium",
        [
            aqms.equilibrium("20mbit", "pie", 30),
            aqms.equilibrium("20mbit", "fq_pie", 30),
            aqms.red("20mbit", 240_000, 20),
            aqms.red("200mbit", 600_000, 5, (100_000, 200_000)),
        ],
        run="ci",
    ),
    side_by_side(
        "equilibrium-rates",
        [
            *(aqms.equilibrium("2mbit", kind, 30) for kind in ("pie", "fq_pie")),
            aqms.red("2mbit", 120_000, 60),
            aqms.red("2gbit", 1_200_000, 0.6, (200_000, 400_000)),
        ],
    ),
    side_by_side(
        "shares",
        [
            aqms.shared("20mbit", "fq_codel", 3),
            aqms.shared("20mbit", "fq_pie", 3),
            aqms.shared("20mbit", "sfq", 3),
            aqms.shared("20mbit", "cake", 3),
            aqms.shared("20mbit", "fq", 3),
            aqms.shared("200mbit", "fq_codel", 1),
            aqms.shared("2mbit", "fq_codel", 10),
        ],
        run="ci",
    ),
    side_by_side(
        "shares-rates",
        [
            *(aqms.shared("2mbit", kind, 10) for kind in ("fq_pie", "sfq", "cake")),
            *(aqms.shared("200mbit", kind, 1) for kind in ("fq_pie", "sfq", "cake")),
            *(aqms.shared("2gbit", kind, 0.1) for kind in ("fq_codel", "fq_pie", "sfq", "cake")),
        ],
    ),
    side_by_side(
        "control",
        [
            aqms.codel_controlled("20mbit", "codel", 10),
            aqms.codel_controlled("20mbit", "fq_codel", 10),
            aqms.codel_controlled("20mbit", "cake", 10),
            aqms.codel_controlled("200mbit", "codel", 3),
            aqms.pie_controlled("20mbit", "pie", 10),
            aqms.pie_controlled("20mbit", "fq_pie", 10),
            aqms.pie_controlled("200mbit", "pie", 3),
        ],
    ),
    side_by_side(
        "short",
        [
            *(flows.short(rate, rtt_ms=10) for rate in ("2mbit", "200mbit", "2gbit")),
            # The path holds less than the initial window: the link is never idle, and 100 KB take
            # size/rate beyond the RTT. With an RTT of 0.1 ms it is idle for 4 µs, because TCP waits
            # for a second ACK to fill a larger segment (tcp_tso_should_defer).
            flows.short("1gbit", rtt_ms=0.05, sizes=(1, 10, 70)),
            flows.short("20mbit", rtt_ms=40, sizes=(20, 21), window=20),
        ],
        run="ci",
    ),
    side_by_side(
        "hits",
        [
            flows.hit("20mbit", 1, 400),
            flows.hit("2gbit", 1, 400),
            flows.hit("20mbit", 0.1, 400),
            flows.hit("20mbit", 0.5, 300, links=2),
            flows.hit("20mbit", 0.25, 300, links=4),
        ],
    ),
    side_by_side(
        "random",
        [
            flows.random_losses(1, rtt_ms=40, seconds=60),
            flows.random_losses(0.1, rtt_ms=40, seconds=60),
            flows.random_losses(0.01, rtt_ms=20, seconds=30),
        ],
    ),
    side_by_side(
        "windows",
        [
            flows.sawtooth("10mbit", rtt_ms=40, room=50, seconds=30),
            flows.cubic("50mbit", rtt_ms=100, room=200, seconds=50),
            flows.bbr("20mbit", rtt_ms=40),
            flows.dctcp("100mbit", rtt_ms=10, mark=20, flows=2),
            flows.dctcp("100mbit", rtt_ms=10, mark=20, flows=2, in_bytes=True),
            flows.receive_window("100mbit", rtt_ms=40, window_bytes=64000),
        ],
    ),
    in_turn(
        "dumbbell",
        "dumbbell clients=1 servers=1",
        ("client1", "server1"),
        [
            links.idle("20mbit", delay_ms=5),
            links.overloaded("20mbit", "100p", 100),
            links.random_loss("20mbit", 1, 10_000),
            flows.hit("200mbit", 1, 300),
            links.codel("20mbit", "codel", 4),
            aqms.codel_controlled("20mbit", "fq_codel", 10),
        ],
        changed="host=router to=right",
    ),
    in_turn(
        "dumbbell-queues",
        "dumbbell clients=1 servers=1",
        ("client1", "server1"),
        [
            links.overloaded("20mbit", "100K", 100_000 // 1514),
            links.bursts("20mbit", 1, 30, 20_000),
            links.duplicated("20mbit", 1, 10_000),
            links.reordered("20mbit", 25, 10_000),
            links.codel("20mbit", "fq_codel", 4),
            aqms.equilibrium("20mbit", "pie", 30),
            aqms.equilibrium("20mbit", "fq_pie", 30),
            aqms.red("20mbit", 240_000, 20),
            aqms.shared("20mbit", "sfq", 3),
            aqms.shared("20mbit", "cake", 3),
            links.policed("20mbit"),
        ],
        changed="host=router to=right",
    ),
    links.by_name(),
    STEPS,
    CARRIED,
    in_turn(
        "tree",
        "tree depth=2",
        ("h1", "h3"),
        [flows.hit("200mbit", 0.25, 300, links=4)],
    ),
    side_by_side(
        "tree-queues",
        [
            links.random_loss("20mbit", 0.1, 20_000, links=4),
            links.bursts("20mbit", 1, 30, 20_000, links=4),
            links.duplicated("20mbit", 1, 10_000, links=4),
            links.overloaded("20mbit", "100K", 100_000 // 1514, links=4),
            links.codel("20mbit", "codel", 4, links=4),
            links.codel("20mbit", "fq_codel", 4, links=4),
            aqms.equilibrium("20mbit", "pie", 30, links=4),
            aqms.equilibrium("20mbit", "fq_pie", 30, links=4),
            aqms.red("20mbit", 240_000, 20, links=4),
            aqms.shared("20mbit", "sfq", 3, links=4),
            aqms.shared("20mbit", "cake", 3, links=4),
            links.policed("20mbit", links=4),
        ],
    ),
    flows.started_together("sim"),
    flows.started_together("lab"),
    in_turn(
        "on-lab",
        "pair",
        ("a", "b"),
        [
            links.idle("20mbit", delay_ms=0, ground="lab"),
            # What waits in the link counts in the send buffer of its socket: 92 full datagrams fit
            # (socket(7), SO_SNDBUF; docs/labs.md).
            links.overloaded("20mbit", "50p", 50, delay_ms=0, excess=10, ground="lab"),
            links.overloaded("20mbit", "100K", 66, delay_ms=0, excess=10, ground="lab"),
        ],
        changed="host=a",
        ground="lab",
    ),
    in_turn(
        "on-uml",
        "pair",
        ("a", "b"),
        [
            links.random_loss("2mbit", 1, 5_000),
            flows.hit("20mbit", 1, 100),
        ],
        changed="host=a",
        ground="uml",
    ),
)  # fmt: skip
