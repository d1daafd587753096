"""How SQL is read: which operators bind closer than others, and how long and how deep a text may be.

Operators bind as in DuckDB and PostgreSQL, from the closest: signs; `* / %`; `+ -`; BETWEEN, IN and LIKE;
comparisons, which do not chain; IS; NOT; AND; OR.
"""

from __future__ import annotations

import re
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.parser import IsPredicatePrecedence
from sqlglot.parser import Parser as SqlglotParser
from sqlglot.tokenizer_core import Token, TokenType

# What a text may have at most. Reading takes about a tenth of a millisecond a word; each bracket takes some
# 20 calls within each other, each change of operators some 3, and Python allows 1000.
CHARACTERS = 100_000
WORDS = 10_000
BRACKETS = 20
OPERATORS = 200
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
_PREFIXES = (TokenType.NOT, TokenType.DASH, TokenType.PLUS)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
NO_STACK = "it nests deeper than Python's stack has room for here"
# What the tokenizer steps over in one go; where none fits, a quote or a comment is left open.
_STRETCH = re.compile(
    r"""'(?:[^']|'')*' | "[^"]*" | `[^`]*` | --[^\n]* | /\*.*?\*/ | {\#.*?\#} | (?!/\*|{\#)[^'"`]""",
    re.DOTALL | re.VERBOSE,
)


class Parser(SqlglotParser):
    """Expressions as sqlglot reads them, but for IS: it binds less than comparisons do."""

    IS_PREDICATE_PRECEDENCE: ClassVar[IsPredicatePrecedence] = IsPredicatePrecedence.LOW


class ExpressionSql(Dialect):
    """The dialect of expressions that stand by themselves."""

    Parser = Parser


class TooLargeError(Exception):
    """What there is too much of in a text, and where it becomes too much."""

    def __init__(self, why: str, at: int) -> None:
        super().__init__(why)
        self.at = at


def tokenize(text: str, dialect: Dialect) -> list[Token]:
    """Return the tokens of a text; what takes too long to parse is refused before."""
    if len(text) > CHARACTERS:
        raise TooLargeError(f"it has {len(text):,} characters; at most {CHARACTERS:,} are read", 0)
    tokens = dialect.tokenize(text)
    if len(tokens) > WORDS:
        raise TooLargeError(f"it has {len(tokens):,} words and signs; at most {WORDS:,} are read", 0)
    _check_nesting(tokens)
    return tokens


def _check_nesting(tokens: list[Token]) -> None:
    depth = prefixes = 0
    for token in tokens:
        prefixes = prefixes + 1 if token.token_type in _PREFIXES else 0
        if token.token_type in _OPENING:
            depth += 1
        elif token.token_type in _CLOSING:
            depth -= 1
        elif token.token_type == TokenType.SEMICOLON:
            depth = 0
        if depth + prefixes > BRACKETS:
            raise TooLargeError(
                f"brackets, CASE, NOT and signs stand within each other at most {BRACKETS} deep", token.start
            )


def refused(node: exp.Expr) -> tuple[exp.Expr, str] | None:
    """Return a part that is not computed although it is SQL, and why; None if there is none."""
    parts = [(node, 0)]
    while parts:
        part, depth = parts.pop()
        if depth > OPERATORS:
            return part, f"different operators stand within each other at most {OPERATORS} deep"
        below = list(part.iter_expressions())
        if isinstance(part, _COMPARISONS) and any(isinstance(child, _COMPARISONS) for child in below):
            return part, "comparisons do not chain: join them by AND, or put brackets around one"
        # One operator in a row, as in a + b + c, is read, printed and computed without recursion.
        parts += [(child, depth if type(child) is type(part) else depth + 1) for child in below]
    return None


def left_open(text: str) -> int:
    """Return where the quote or comment begins that a text does not close."""
    at = 0
    while match := _STRETCH.match(text, at):
        at = match.end()
    return min(at, len(text))
