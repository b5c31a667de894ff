"""What the code decides of the manual and of fields.txt is what `make docs` writes."""

import pytest
from tables import WRITTEN


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_file_is_what_make_docs_writes(path):
    text = path.read_text(encoding="utf-8")
    assert WRITTEN[path](text) == text
