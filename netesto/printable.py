"""Text of others (scripts, hosts, tools) before a terminal shows it: no character of it acts there.

Imports nothing of ours.
"""

# Characters that a terminal obeys instead of showing them: U+001B begins a sequence that may colour
# the rest, rename the window or answer in the user's name; a return writes over what stands there.
_CONTROLS = {number: chr(0x2400 + number) for number in range(0x20)} | {0x7F: "\u2421"}
# Those of 8 bits, those that turn the direction of writing (a line would not read as it is), other
# ends of lines, and halves of characters, which no encoding has.
_OTHERS = (
    *range(0x80, 0xA0),
    *(0x061C, 0x200E, 0x200F, 0x2028, 0x2029),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    *range(0xD800, 0xE000),
)
_SHOWN = dict.fromkeys(_OTHERS, "�") | _CONTROLS
del _SHOWN[ord("\t")], _SHOWN[ord("\n")]

# Our own typography, where an encoding lacks it.
_PLAIN = {"…": "...", "→": "->", "·": "-", "±": "+-", "\ufffd": "?"} | {
    picture: f"\\x{number:02x}" for number, picture in _CONTROLS.items()
}


def printable(text: str) -> str:
    """`text` with its control characters made visible, each as one character (␛ for an escape), so
    that a caret under it stays in place. Tabs and ends of lines are kept."""
    return text.translate(_SHOWN)


def replaced(error: UnicodeError) -> tuple[str, int]:
    """An error handler of codecs: what an encoding lacks is written in plain characters, or by its
    number. Raises what is no error of encoding."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return (
        "".join(
            _PLAIN.get(character, character.encode("ascii", "backslashreplace").decode("ascii"))
            for character in error.object[error.start : error.end]
        ),
        error.end,
    )
