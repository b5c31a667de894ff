"""Substitution against a plain model of it: one that reads a text character by character."""

import string

from hypothesis import example, given
from hypothesis import strategies as st
from language_asked import Asked, run

WORD = string.ascii_letters + string.digits + "_"
# Stands for `$$` until the end, so that what follows it is no name.
KEPT = "\0"


class CircleError(Exception):
    pass


def name_at(text, start):
    """The name that a `$` before `start` refers to, and where the text goes on; "" if none."""
    if text[start : start + 1] == "{":
        end = text.find("}", start)
        name = text[start + 1 : max(end, start + 1)]
        return (name, end + 1) if name and all(each in WORD for each in name) else ("", start)
    end = start
    while end < len(text) and text[end] in WORD:
        end += 1
    return text[start:end], end


def filled(text, variables, active=()):
    """`text` with its variables replaced, and those in their values."""
    result, position = "", 0
    while position < len(text):
        if text[position] != "$":
            result += text[position]
            position += 1
        elif text[position + 1 : position + 2] == "$":
            result += KEPT
            position += 2
        else:
            name, end = name_at(text, position + 1)
            if name in active:
                raise CircleError
            if name in variables:
                result += filled(variables[name], variables, (*active, name))
            else:
                result += text[position : max(end, position + 1)]
            position = max(end, position + 1)
    return result


def model(lines):
    """What the last of `lines` prints, the others being assignments; None for a circle."""
    variables: dict[str, str] = {}
    *assignments, (_, text) = lines
    try:
        for name, value in assignments:
            variables[name] = filled(value, variables)
        return filled(text, variables).replace(KEPT, "$")
    except CircleError:
        return None


def script(lines):
    *assignments, (_, text) = lines
    return "".join([*[f"SET {name}={value}\n" for name, value in assignments], f"ECHO {text}\n"])


# Few and alike, so that they meet, and one is the beginning of another.
names = st.sampled_from(["a", "ab", "abc", "A", "b", "_", "a1", "1", "1a"])
pieces = st.one_of(
    names.map(lambda name: f"${name}"),
    names.map(lambda name: f"${{{name}}}"),
    st.sampled_from(
        ["$", "$$", "$$$", "${", "}", "${}", ".", ",", "-", "=", "é", "\u0663", "x", "1"]
    ),
)
values = st.lists(pieces, max_size=5).map("".join)
scripts = st.lists(st.tuples(names, values), min_size=1, max_size=8).map(
    lambda lines: [*lines[:-1], ("", f"<{lines[-1][1]}>")]
)


@given(scripts)
@example([("a", "$ab"), ("ab", "${a}"), ("", "<$a>")])
@example([("a", "$$b"), ("b", "1"), ("", "<$a$b>")])
def test_script_prints_what_the_model_does(lines):
    asked = Asked()
    run(script(lines), asked)
    printed = asked.echoed[0] if asked.error is None else None
    assert printed == model(lines)


@given(st.dictionaries(names, values), st.dictionaries(names, values), values)
def test_arguments_of_a_macro_come_before_globals(arguments, variables, text):
    passed = " ".join(f"{name}={value.replace('$', '$$')}" for name, value in arguments.items())
    asked = Asked()
    run(
        f"BEGIN m\nECHO <{text}>\nEND m\nRUN m {passed}\n",
        asked,
        definitions={name: value.replace("$", "$$") for name, value in variables.items()},
    )
    quoted = {name: value.replace("$", "$$") for name, value in (variables | arguments).items()}
    assert asked.error is None
    assert asked.echoed == [filled(f"<{text}>", quoted).replace(KEPT, "$")]
