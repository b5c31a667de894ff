"""How values describe themselves: kinds of arguments, described fields, registers, columns."""
