"""The tree: whole values; place is not part of them."""

from netesto.errors import Place
from netesto.language import ast
from netesto.language.parser import parse

NOWHERE = ast.Line("", "", (ast.Piece(0, 1, 1, ""),))


def row(*words, breaks=(), comment=None):
    return ast.LineLayout(tuple(ast.Word(word) for word in words), NOWHERE, breaks, comment)


def test_commands_comments_and_blanks(tree):
    """
    # head

    SET a=1   # one
    DO_SERVER host=a \\ # who
        order=1
    """
    assert tree == ast.Script(
        (
            ast.Remark(" head"),
            ast.Blank(),
            ast.CommandLine(row("SET", "a=1", comment=" one")),
            ast.CommandLine(row("DO_SERVER", "host=a", "order=1", breaks=(ast.Break(2, " who"),))),
        )
    )


def test_one_line_ifs(tree):
    """
    IF $a > 1: IF_DEF $b: RUN c
    """
    assert tree.body == (
        ast.If(
            row("IF", "$a", ">", "1:", "IF_DEF", "$b:", "RUN", "c"),
            ast.Binary(">", ast.Operand("$a"), ast.Operand("1")),
            ast.If(
                row("IF", "$a", ">", "1:", "IF_DEF", "$b:", "RUN", "c"),
                ast.VariableDefined("b"),
                ast.CommandLine(row("RUN", "c")),
            ),
        ),
    )


def test_blocks(tree):
    """
    BEGIN m
    FOR c in $list DO
    WAIT 1
    DONE
    END m
    IF_DEF m DO
    ELSE
    DONE
    """
    loop = ast.For(
        row("FOR", "c", "in", "$list", "DO"),
        "c",
        ast.Word("$list"),
        (ast.CommandLine(row("WAIT", "1")),),
        row("DONE"),
    )
    assert tree.body == (
        ast.Macro(row("BEGIN", "m"), "m", (loop,), row("END", "m")),
        ast.IfBlock(
            (
                ast.Branch(row("IF_DEF", "m", "DO"), ast.MacroDefined("m"), ()),
                ast.Branch(row("ELSE"), None, ()),
            ),
            row("DONE"),
        ),
    )


def test_conditions_bind_not_before_and_before_or(tree):
    """
    IF NOT a AND b OR (c == "d e") DO
    DONE
    """
    condition = tree.body[0].branches[0].condition
    assert condition == ast.Binary(
        "OR",
        ast.Binary("AND", ast.Unary("NOT", ast.Operand("a")), ast.Operand("b")),
        ast.Binary("==", ast.Operand("c"), ast.Operand('"d e"')),
    )


def test_same_text_elsewhere_is_the_same_tree():
    assert parse("ECHO a", file="x") == parse("ECHO   a", file="y")


def test_word_knows_its_place_in_a_continued_line():
    tree = parse("RUN m \\\n  x=1 y=2", file="x.nts")
    [command] = tree.body
    assert isinstance(command, ast.CommandLine)
    assert command.row.place("y=") == Place("x.nts", 2, 9, 1, "  x=1 y=2")
