import pytest

from netesto.files import jsontext


@pytest.mark.parametrize("opening", ["[", '{"a":'], ids=["lists", "objects"])
@pytest.mark.parametrize("reader", [jsontext.parse, jsontext.first])
def test_what_is_nested_too_deeply_is_a_value_error(reader, opening: str):
    with pytest.raises(ValueError, match=r"^nested too deeply$"):
        reader(opening * 100_000)


@pytest.mark.parametrize("text", ["NaN", "[-Infinity]", '{"a": 1e999}'])
def test_a_number_that_is_not_finite_is_refused_only_on_request(text: str):
    jsontext.parse(text)
    with pytest.raises(ValueError, match=r"is not a finite number$"):
        jsontext.parse(text, finite=True)


def test_damaged_lines_are_omitted():
    assert list(jsontext.lines(['{"a": 1}', '{"a"', "[" * 100_000, "2"])) == [{"a": 1}, 2]
