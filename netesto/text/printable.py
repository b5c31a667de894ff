"""Makes text of scripts, hosts and tools safe for a terminal: none of its characters acts there.

Imports nothing of ours.
"""

# Characters that a terminal obeys instead of showing them: U+001B begins a sequence that may colour
# the rest, rename the window or send input in the user's name; a return overwrites the line.
_CONTROLS = {number: chr(0x2400 + number) for number in range(0x20)} | {0x7F: "\u2421"}
# Control characters of 8 bits, changes of the direction of writing (which make a line read as
# another), other line ends, and surrogates, which cannot be encoded.
_OTHERS = (
    *range(0x80, 0xA0),
    *(0x061C, 0x200E, 0x200F, 0x2028, 0x2029),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    *range(0xD800, 0xE000),
)
_SHOWN = dict.fromkeys(_OTHERS, "�") | _CONTROLS
del _SHOWN[ord("\t")], _SHOWN[ord("\n")]

# Replacements for our own typography, if an encoding lacks it.
_PLAIN = {"…": "...", "→": "->", "·": "-", "±": "+-", "\ufffd": "?"} | {
    picture: f"\\x{number:02x}" for number, picture in _CONTROLS.items()
}


def printable(text: str) -> str:
    """`text` with its control characters made visible, each as one character (␛ for an escape), so
    that a caret under it stays in place. Tabs and ends of lines are kept."""
    return text.translate(_SHOWN)


def replaced(error: UnicodeError) -> tuple[str, int]:
    """An error handler of codecs: writes plain characters, or the number, for what an encoding
    lacks. Raises any error but those of encoding."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return (
        "".join(
            _PLAIN.get(character, character.encode("ascii", "backslashreplace").decode("ascii"))
            for character in error.object[error.start : error.end]
        ),
        error.end,
    )
