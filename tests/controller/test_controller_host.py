"""A host's clock, where it is the controller's own."""

from netesto.controller.host import of_one_clock
from netesto.model import ClockOffset


def test_one_clock_has_no_offset_though_its_measurement_is_not_exact():
    assert of_one_clock(ClockOffset(0.0004, 0.0005)) == ClockOffset(0.0, 0.0)


def test_a_clock_that_was_set_meanwhile_is_believed_as_measured():
    assert of_one_clock(ClockOffset(-0.05, 0.0005)) == ClockOffset(-0.05, 0.0005)
