"""Which of the documents in a client's output is its result."""

from imports_trees import output

from netesto.imports import iperf3


def test_a_long_document_that_was_cut_off_hides_no_whole_one_behind_it():
    long = output(10, streams=8, seconds=200)
    found = iperf3.read((long[: len(long) * 3 // 4] + "\n" + output(20)).encode())
    assert (found.sent, found.documents) == (iperf3.Sent(20e9, 0), 1)
