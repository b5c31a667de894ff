"""The rules of a protected link, each replayed by the engine in virtual time.

Frames of 997 bytes take 8 us with their number at 1 Gbit/s, control frames 0.512 us; the delay is
1 us. Instants are in picoseconds.
"""

import json

import pytest
from needs import unmet

from netesto.emulator import PROGRAM, words
from netesto.links.given import link_settings
from netesto.system import process


@pytest.fixture(scope="module", autouse=True)
def _program():
    if not PROGRAM.exists():
        unmet("native", "netesto-link was not compiled: no C compiler")


def replayed(lines, there, back="rate=1gbit delay=1us", *options):
    """What happens on a link with these settings."""
    ways = [link_settings(dict(w.split("=", 1) for w in each.split()), what="a link")
            for each in (f"rate=1gbit delay=1us {there}", back)]  # fmt: skip
    command = [str(PROGRAM), "replay", *words(*ways), *options]
    finished = process.run(command, timeout=60, stdin="\n".join([*lines, ""]))
    return finished.stdout.splitlines()


def frames(count, *, at=0, size=997, way="to"):
    return [f"give {at} {way} {size}"] * count


def deliveries(told):
    each = [line.split() for line in told if " delivered " in line]
    return [(int(at), int(which)) for at, _, _, which in each]


def test_without_protection_a_frame_takes_its_size_and_overhead_and_what_is_lost_stays_so():
    told = replayed(["lose to frame 2", *frames(3, size=980), "end"], "protect=off overhead=20")
    assert told == [
        "0 to sent frame 0",
        "8000000 to sent frame 0",
        "9000000 to delivered 0",
        "16000000 to sent frame 0",
        "17000000 to lost 1 0",
        "25000000 to delivered 2",
    ]


ORDERED = [
    "0 to sent frame 0",
    "8000000 to sent frame 1",
    # The other direction is idle: a control frame acknowledges.
    "9000000 from sent state 1",
    "16000000 to sent frame 2",
    # The port takes 997 bytes: 7.976 us.
    "16976000 to delivered 0",
    "17000000 to lost 1 0",
    "24000000 to sent dummy 3",
    "24512000 to sent dummy 3",
    "25000000 from sent notice 1",
    "25024000 to sent dummy 3",
    # 0.512 + 1 us of the notice, 0.5 us of the reaction.
    "27012000 to sent copy 1",
    "35012000 to sent copy 1",
    "to recovered 11012000",
    "43988000 to delivered 1",
    "51964000 to delivered 2",
]


def test_ordered_a_gap_is_reported_once_and_what_is_behind_it_waits_for_the_copies():
    lines = ["lose to frame 2", *frames(3), "end"]
    assert replayed(lines, "protect=ordered reaction=0.5us") == ORDERED


def test_nonblocking_hands_on_as_frames_arrive_and_a_copy_when_it_comes():
    lines = ["lose to frame 2", *frames(3), "end"]
    told = replayed(lines, "protect=nonblocking reaction=0.5us")
    assert deliveries(told) == [(16_976_000, 0), (32_976_000, 2), (43_988_000, 1)]


def test_a_copy_that_comes_twice_is_dropped():
    lines = ["lose to frame 2", *frames(3), "end", "state 90000000 to"]
    state = json.loads(replayed(lines, "protect=ordered reaction=0.5us")[-1])
    assert (state["duplicates"], state["resent"], state["delivered"]) == (1, 2, 3)


def test_one_notice_reports_a_run_of_missing_frames_and_each_gets_its_copies():
    lines = ["lose to frame 2 3 4", *frames(5), "end"]
    told = replayed(lines, "protect=ordered copies=1")
    sent = [line.split()[1:] for line in told if "sent copy" in line or "sent notice" in line]
    assert sent == [
        ["from", "sent", "notice", "1"],
        ["to", "sent", "copy", "1"],
        ["to", "sent", "copy", "2"],
        ["to", "sent", "copy", "3"],
    ]
    assert [which for _, which in deliveries(told)] == [0, 1, 2, 3, 4]


def test_two_gaps_have_a_notice_each():
    lines = ["lose to frame 2 4", *frames(5), "end"]
    told = replayed(lines, "protect=ordered")
    assert [line.split()[3:] for line in told if "sent notice" in line] == [
        ["notice", "1"], ["notice", "3"],
    ]  # fmt: skip


def test_more_missing_frames_than_notice_are_given_up_at_once():
    lines = ["lose to frame 2 3 4", *frames(5), "end", "state 900000000 to"]
    *told, state = replayed(lines, "protect=ordered notice=2")
    assert [which for _, which in deliveries(told)] == [0, 1, 2, 4]
    state = json.loads(state)
    assert (state["lost"], state["given_up"], state["notices"]) == (3, 1, 1)


def test_a_frame_whose_copies_are_lost_too_is_not_reported_again_and_given_up_after_hold():
    lines = ["lose to frame 2 4 5", *frames(3), "end", "state 200000000 to"]
    *told, state = replayed(lines, "protect=ordered hold=50us")
    # The gap is seen at 25 us.
    assert deliveries(told) == [(16_976_000, 0), (25_000_000 + 50_000_000 + 7_976_000, 2)]
    state = json.loads(state)
    assert (state["given_up"], state["held"], state["rx_bytes"]) == (1, 0, 0)


def test_copies_are_sent_before_new_frames_and_a_notice_before_anything_else():
    lines = ["lose to frame 1", *frames(8), *frames(8, way="from"), "end"]
    told = replayed(lines, "protect=ordered copies=1")
    sent = [line.split() for line in told if "sent" in line]
    # The gap is seen at 17 us; the frame that is being sent ends at 24 us, and the notice is next.
    assert ["24000000", "from", "sent", "notice", "0"] in sent
    # It arrives at 25.512 us; the frame that is being sent ends at 32 us, and the copy is next.
    assert ["32000000", "to", "sent", "copy", "0"] in sent


def test_an_acknowledgement_rides_on_frames_of_the_other_direction():
    lines = [*frames(3), *frames(3, way="from"), "state 25000000 to"]
    *told, state = replayed(lines, "protect=ordered")
    assert not [line for line in told if "sent state" in line and int(line.split()[0]) < 24_000_000]
    # The frame from 16 to 24 us acknowledges what came by then; it arrives at 25 us.
    assert json.loads(state)["acknowledged"] == 1


def test_dummies_report_a_lost_tail():
    told = replayed(["lose to frame 2", *frames(2), "end"], "protect=ordered")
    assert [line for line in told if "dummy" in line or "notice" in line] == [
        "16000000 to sent dummy 2",
        "16512000 to sent dummy 2",
        "17024000 to sent dummy 2",
        "17512000 from sent notice 1",
    ]
    assert [which for _, which in deliveries(told)] == [0, 1]


def test_a_tail_whose_dummies_are_lost_is_reported_by_the_next_frame():
    lines = ["lose to frame 2", "lose to control 1 2 3", *frames(2), *frames(1, at=100_000_000),
             "end"]  # fmt: skip
    told = replayed(lines, "protect=ordered")
    assert [line for line in told if "notice" in line] == ["109000000 from sent notice 1"]
    assert [which for _, which in deliveries(told)] == [0, 1, 2]


def test_the_sender_pauses_and_goes_on_as_the_receiver_says():
    lines = ["lose to frame 1", *frames(12), "end", "state 900000000 to"]
    *told, state = replayed(lines, "protect=ordered reaction=20us pause=2000 resume=1000")
    paused = [line.split()[0] for line in told if line.split()[1:4] == ["from", "sent", "state"]]
    state = json.loads(state)
    assert state["pauses"] >= 1
    assert state["paused_s"] > 0
    assert (state["held"], state["rx_bytes"], state["delivered"]) == (0, 0, 12)
    # Three frames are held at 33 us; the pause arrives 1.512 us later.
    assert "33000000" in paused
    new = [int(line.split()[0]) for line in told if "sent frame" in line]
    copies = [int(line.split()[0]) for line in told if "sent copy" in line]
    assert [at for at in new if 34_512_000 <= at <= copies[-1]] == []


def test_a_lost_resume_is_reported_again():
    lines = [
        "lose to frame 1",
        "lose from control 3 4 5",
        *frames(12),
        "end",
        "state 9000000000 to",
    ]
    state = replayed(lines, "protect=ordered reaction=20us pause=2000 resume=1000")[-1]
    state = json.loads(state)
    assert (state["delivered"], state["held"], state["copies"]) == (12, 0, 0)


def test_a_sender_without_room_for_copies_waits_for_acknowledgements():
    lines = [*frames(3, size=1514), "end", "state 900000000 to"]
    *told, state = replayed(lines, "protect=ordered txbuffer=2000")
    new = [int(line.split()[0]) for line in told if "sent frame" in line]
    # 12.136 us of the frame, 1 us, 0.512 + 1 us of the acknowledgement.
    assert new == [0, 14_648_000, 29_296_000]
    assert json.loads(state)["stalled_s"] == pytest.approx(2 * 2.512e-6)


def test_a_receiver_without_room_drops_and_counts():
    lines = ["lose to frame 1", *frames(5), "end", "state 900000000 to"]
    *told, state = replayed(lines, "protect=ordered reaction=20us rxbuffer=2000 pause=1M resume=1M")
    assert [which for _, which in deliveries(told)] == [0, 1, 2]
    assert json.loads(state)["rx_drops"] == 2


def test_numbers_have_16_bits_and_an_era():
    count = 140_000
    lines = ["lose to frame 65535 65536 131072", *frames(count, size=64), "end",
             "state 900000000000 to"]  # fmt: skip
    *told, state = replayed(
        lines, "protect=ordered limit=1G rate=100gbit", "rate=100gbit delay=1us", "quiet"
    )
    assert [which for _, which in deliveries(told)] == list(range(count))
    state = json.loads(state)
    assert (state["next"], state["era"]) == (count - 2 * 65_536, 0)
    assert (state["acknowledged"], state["expected"]) == (state["next"], state["next"])


def test_never_more_than_half_the_numbers_are_unacknowledged():
    lines = [*frames(40_000, size=64), "state 400000000 to", "end", "state 4000000000000 to"]
    told = replayed(
        lines, "protect=ordered limit=1G rate=100gbit delay=100 pause=1G resume=1G",
        "rate=100gbit delay=100", "quiet",
    )  # fmt: skip
    first, last = (json.loads(line) for line in told if line[0] == "{")
    assert (first["next"], first["copies"]) == (32_768, 32_768)
    assert last["delivered"] == 40_000


def test_a_full_queue_drops_and_a_long_one_marks():
    told = replayed([*frames(5), "end"], "protect=off limit=3p mark=1500B")
    assert [line for line in told if "dropped" in line or "marked" in line] == [
        "0 to dropped 4",
        "to marked 2",
        "to marked 3",
    ]


def test_what_waited_longer_than_mark_is_marked():
    told = replayed([*frames(5, size=1000), "end"], "protect=off mark=16us")
    assert [line for line in told if "marked" in line] == ["to marked 3", "to marked 4"]


def test_a_policer_drops_what_is_faster_than_the_rate_and_holds_nothing_back():
    lines = [*frames(3, size=1514), *frames(1, at=12_112_000, size=1514), "end"]
    told = replayed(lines, "protect=off police=3028")
    assert told == [
        "0 to sent frame 0",
        "0 to sent frame 0",
        "0 to dropped 2",
        "1000000 to delivered 0",
        "1000000 to delivered 1",
        "12112000 to sent frame 0",
        "13112000 to delivered 3",
    ]


def test_a_link_that_is_cut_loses_what_is_queued_and_under_way():
    lines = [*frames(3), "set 10000000 to.down=1", "set 60000000 to.down=0",
             *frames(1, at=60_000_000), "end"]  # fmt: skip
    told = replayed(lines, "protect=off")
    assert [line.split()[2:4] for line in told if "sent" not in line] == [
        ["delivered", "0"], ["dropped", "2"], ["lost", "1"], ["delivered", "3"],
    ]  # fmt: skip


def test_frames_under_way_keep_what_they_were_sent_with():
    lines = ["lose to frame 2", *frames(3), "set 30000000 to.protect=off to.delay=3000000",
             *frames(2, at=60_000_000), "end"]  # fmt: skip
    told = replayed(lines, "protect=ordered reaction=0.5us")
    assert deliveries(told) == [
        (16_976_000, 0),
        # The first copy was sent before the change.
        (43_988_000, 1),
        (51_964_000, 2),
        (60_000_000 + 7_976_000 + 3_000_000, 3),
        (60_000_000 + 2 * 7_976_000 + 3_000_000, 4),
    ]
