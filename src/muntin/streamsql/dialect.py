"""The grammar of window queries: sqlglot's tokens and expressions, and statements of our own around them.

A statement is cut into clauses here; what they mean is for `muntin.streamsql.translate`. Functions are read
under the names that were written, since many of ours are not those of any other dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, TypeVar

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parser import SENTINEL_NONE
from sqlglot.tokenizer_core import Token, TokenType

from muntin.expressions import grammar
from muntin.streamsql.errors import SqlError, nearest

T = TypeVar("T")


@dataclass(frozen=True)
class Name:
    """A name as it was written, and where."""

    text: str
    at: int


@dataclass(frozen=True)
class Part:
    """An expression, and where it begins; perhaps the name that it is given."""

    node: exp.Expr
    at: int
    name: Name | None = None


@dataclass(frozen=True)
class Call:
    """A window function after FROM: `HOP(TABLE t PARTITION BY k, DESCRIPTOR(ts), slide => ...)`."""

    function: Name
    table: Name
    partition: tuple[Name, ...]
    arguments: tuple[Part, ...]


@dataclass(frozen=True)
class Amount:
    """How far a CQL window reaches: a number of rows, or a duration."""

    node: exp.Expr
    rows: bool
    at: int


@dataclass(frozen=True)
class Brackets:
    """A CQL window: `[PARTITION BY k WATTR ts RANGE 7 MINUTES SLIDE 3 MINUTES]`."""

    at: int
    span: Amount
    slide: Amount | None
    time: Name | None
    partition: tuple[Name, ...]


@dataclass
class Clauses:
    """The clauses of one statement."""

    at: int
    explain: bool = False
    name: Name | None = None
    items: list[Part] = field(default_factory=list)
    table: Name | None = None
    alias: Name | None = None
    window: Call | Brackets | None = None
    where: Part | None = None
    group: list[Part] | None = None
    having: Part | None = None
    emit: dict[str, int] = field(default_factory=dict)  # what is asked for, and where
    early: Part | None = None  # how often windows are shown before they are complete


class Unread(ParseError):
    """What sqlglot cannot read; it may try something else then."""

    def __init__(self, message: str, token: Token, ended: bool) -> None:
        super().__init__(message, [{"description": message}])
        self.at = token.end + 1 if ended else token.start
        wanted = message.removeprefix("Expecting ")
        if ended:
            missing = wanted if wanted != message else "the rest of the expression"
            self.sentence = f"{missing} is missing after {token.text!r}."
        elif wanted != message:
            self.sentence = f"{wanted} is missing, where {token.text!r} stands."
        else:
            self.sentence = f"the expression cannot be read from {token.text!r} on."


class Parsed(exp.Expression):
    """A statement, as sqlglot hands it on."""

    arg_types: ClassVar[dict[str, bool]] = {"clauses": True}


_STATEMENTS = "statements are SELECT, INSERT INTO name SELECT, CREATE VIEW name AS SELECT and EXPLAIN SELECT"
_PER_STATEMENT = "put queries side by side as statements with ; between them"
_AFTER_FROM = "prepare the stream before, and name one table after FROM"
_JOINS = ("JOIN", "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "CROSS", "NATURAL", "LATERAL", ",")
# What SQL has and window queries do not, by the word it begins with; and what to do instead.
REFUSED = {
    "ORDER": "ORDER BY is not supported: rows come out by window_end and window_start",
    "SORT": "SORT BY is not supported: rows come out by window_end and window_start",
    "LIMIT": "LIMIT is not supported: a stream has no last row; HAVING leaves windows out",
    "OFFSET": "OFFSET is not supported: a stream has no last row; HAVING leaves windows out",
    "FETCH": "FETCH is not supported: a stream has no last row; HAVING leaves windows out",
    "UNION": f"UNION is not supported: {_PER_STATEMENT}",
    "EXCEPT": f"EXCEPT is not supported: {_PER_STATEMENT}",
    "INTERSECT": f"INTERSECT is not supported: {_PER_STATEMENT}",
    "QUALIFY": "QUALIFY is not supported: HAVING leaves windows out",
    "WINDOW": "a WINDOW clause is not supported: write the window itself after OVER",
    **dict.fromkeys(_JOINS, f"joins are not supported: {_AFTER_FROM}"),
}
_EMIT = {"EMPTY": "emit_empty", "PARTIAL": "emit_partial", "ON CHANGE": "on_change"}
# The words that end a source, so that they are no alias of it.
_CLAUSES = {"WHERE", "GROUP", "HAVING", "EMIT", *REFUSED}
_RESERVED = {"SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "AS"}
# What CQL has between brackets, and what is nearest to it.
_UNBOUNDED = {
    "NOW": "[NOW] is not supported: the nearest is [ROWS 1]",
    "UNBOUNDED": "windows without an end are not supported: the nearest is LANDMARK(table, time, when)",
}


class StreamSql(Dialect):
    """The dialect: both kinds of quoted names, and no word that stands for a whole command."""

    class Tokenizer(tokens.Tokenizer):
        """Names in double quotes or backticks, texts in single quotes."""

        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        COMMANDS: ClassVar[set[TokenType]] = set()

    class Parser(grammar.Parser):
        """Statements as we have them, of expressions as all SQL here has them."""

        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {"CAST": lambda self: self._cast()}
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            "CASE": grammar.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]
        }
        NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {}
        FUNC_TOKENS: ClassVar[set[TokenType]] = {
            *grammar.Parser.FUNC_TOKENS,
            TokenType.KEEP,
            TokenType.SESSION,
            TokenType.WHEN,
        }

        # ---- what sqlglot calls ----

        def _parse_statement(self) -> exp.Expr | None:
            if not self._curr or self._match(TokenType.SEMICOLON):
                return None
            clauses = self._statement()
            if self._curr:
                self._refuse_rest()
            return Parsed(clauses=clauses)

        def raise_error(self, message: str, token: Token = SENTINEL_NONE) -> NoReturn:
            """Note the place of what cannot be read."""
            found = token or self._curr
            raise Unread(message, found or self._prev, ended=not found)

        def _parse_primary(self) -> exp.Expr | None:
            token = self._curr
            node = super()._parse_primary()
            if isinstance(node, exp.Literal) and token:  # sqlglot notes the places of names only
                node.update_positions(token)
            return node

        def _parse_interval(
            self, require_interval: bool = True, parse_function_unit: bool = True
        ) -> exp.Add | exp.Interval | None:
            token = self._curr
            node = super()._parse_interval(require_interval, parse_function_unit)
            return node and node.update_positions(token)

        def _parse_function_args(self, alias: bool = False) -> list[exp.Expr]:
            """Read arguments, and miss none; sqlglot steps over gaps, and takes names for them."""
            del alias
            arguments: list[exp.Expr] = []
            while arguments or not self._match(TokenType.R_PAREN, advance=False):
                argument = self._parse_lambda()
                if argument is None:
                    self.raise_error("Expecting an argument")
                arguments.append(argument)
                if not self._match(TokenType.COMMA):
                    break
            return arguments

        def _cast(self) -> exp.Expr:
            node = self._parse_cast(strict=True)
            if not self._match(TokenType.R_PAREN, advance=False):
                self.raise_error("Expecting )")
            return node

        # ---- tools ----

        def _fail(self, message: str, at: int | None = None) -> NoReturn:
            raise SqlError(self.sql, self._at() if at is None else at, message)

        def _at(self) -> int:
            """Return where the next token begins; at the end of a statement, where that ends."""
            return self._curr.start if self._curr else self._prev.end + 1

        def _word(self) -> str:
            return self._curr.text.upper() if self._curr and _plain(self._curr) else ""

        def _take(self, *words: str) -> bool:
            """Step over words, if they come next."""
            index = self._index
            for word in words:
                if self._word() != word:
                    self._retreat(index)
                    return False
                self._advance()
            return True

        def _need(self, word: str, where: str) -> None:
            if not self._take(word):
                self._fail(f"{word} is missing {where}{self._instead()}.")

        def _instead(self) -> str:
            return f", where {self._curr.text!r} stands" if self._curr else ""

        def _shown(self) -> str:
            return repr(self._curr.text) if self._curr else "the end of the statement"

        def _name(self, what: str) -> Name:
            """Read a name of one or more parts."""
            if not self._is_name():
                self._fail(f"{what} is missing{self._instead()}.")
            at, parts = self._at(), [self._curr.text]
            self._advance()
            while self._curr and self._curr.token_type == TokenType.DOT and self._next:
                parts.append(self._next.text)
                self._advance(2)
            return Name(".".join(parts), at)

        def _is_name(self) -> bool:
            if not self._curr or self._word() in _RESERVED:
                return False
            return self._curr.token_type == TokenType.IDENTIFIER or self._curr.text.isidentifier()

        def _listed(self, read: Callable[[], T]) -> list[T]:
            parts = [read()]
            while self._take(","):
                parts.append(read())
            return parts

        def _names(self, what: str) -> tuple[Name, ...]:
            """Read one name, or several in parentheses."""
            if not self._take("("):
                return (self._name(what),)
            names = tuple(self._listed(lambda: self._name(what)))
            self._need(")", "after the columns")
            return names

        def _expression(self, what: str) -> Part:
            at = self._at()
            node = self._parse_disjunction() if self._curr else None
            if node is None:
                self._fail(f"{what} is missing{self._instead()}.", at)
            if node.find(exp.Select):
                self._fail(f"subqueries are not supported: {_AFTER_FROM}.", at)
            if (misfit := grammar.refused(node)) is not None:
                self._fail(f"{misfit[1]}.", at)
            return Part(node, at)

        # ---- statements ----

        def _statement(self) -> Clauses:
            clauses = Clauses(self._at())
            clauses.explain = self._take("EXPLAIN")
            clauses.name = self._target()
            if self._word() == "WITH":
                self._fail(f"WITH is not supported: {_PER_STATEMENT}.")
            if not self._take("SELECT"):
                self._fail(f"{self._shown()} begins no statement: {_STATEMENTS}.")
            if self._word() == "DISTINCT":
                self._fail("SELECT DISTINCT is not supported: GROUP BY the columns, or COUNT(DISTINCT v).")
            clauses.items = self._listed(self._item)
            self._need("FROM", "after the columns of SELECT")
            self._source(clauses)
            clauses.where = self._expression("the condition after WHERE") if self._take("WHERE") else None
            if self._curr and self._curr.token_type == TokenType.GROUP_BY:
                self._advance()
                clauses.group = self._listed(self._grouped)
            clauses.having = self._expression("the condition after HAVING") if self._take("HAVING") else None
            if self._take("EMIT"):
                self._listed(lambda: self._emit(clauses))
            return clauses

        def _target(self) -> Name | None:
            """Read what the rows are inserted into, or the view that they make."""
            if self._take("INSERT"):
                self._need("INTO", "after INSERT")
                return self._name("the name after INSERT INTO")
            if not self._take("CREATE"):
                return None
            self._take("OR", "REPLACE")
            self._take("TEMPORARY")
            if not self._take("VIEW"):
                self._fail(f"CREATE makes views only{self._instead()}: {_STATEMENTS}.")
            name = self._name("the name after CREATE VIEW")
            self._need("AS", "after the name of the view")
            return name

        def _item(self) -> Part:
            item = self._expression("a column after SELECT")
            if self._take("AS"):
                return Part(item.node, item.at, self._name("the name after AS"))
            named = self._is_name() and self._next.text.upper() in (",", "FROM")
            return Part(item.node, item.at, self._name("a name") if named else None)

        def _grouped(self) -> Part:
            if self._word() in ("ALL", "CUBE", "ROLLUP", "GROUPING"):
                self._fail(f"GROUP BY {self._word()} is not supported: name keys and window columns.")
            return self._expression("a column after GROUP BY")

        def _emit(self, clauses: Clauses) -> None:
            at = self._at()
            for words, flag in _EMIT.items():
                if self._take(*words.split()):
                    clauses.emit[flag] = at
                    return
            if not self._take("EARLY"):
                self._fail(f"EMIT takes EMPTY, PARTIAL, ON CHANGE or EARLY EVERY, not {self._shown()}.")
            self._need("EVERY", "after EARLY")
            clauses.early = self._expression("the duration after EARLY EVERY")

        def _refuse_rest(self) -> NoReturn:
            word = self._word().split(" ")[0]
            if word in REFUSED:
                self._fail(f"{REFUSED[word]}.")
            clauses = ["WHERE", "GROUP BY", "HAVING", "EMIT"]
            hint = nearest(
                word or "?", clauses, {"GROUP": "write GROUP BY", "ON": "the nearest is EMIT ON CHANGE"}
            )
            if hint.startswith("there are"):
                hint = "after the source come WHERE, GROUP BY, HAVING and EMIT, in this order"
            self._fail(f"{self._shown()} does not belong here: {hint}.")

        # ---- sources ----

        def _source(self, clauses: Clauses) -> None:
            """Read what stands after FROM: a table, a table with a CQL window, or a window function."""
            if self._word() == "TABLE":
                self._advance()
                self._need("(", "after TABLE")
                clauses.window = self._call()
                self._need(")", "after the window function")
            elif self._word() == "(":
                self._fail(f"subqueries are not supported: {_AFTER_FROM}.")
            elif self._next and self._next.text == "(" and self._is_name():
                clauses.window = self._call()
            else:
                clauses.table = self._name("the table after FROM")
            if isinstance(clauses.window, Call):
                clauses.table = clauses.window.table
            clauses.alias = self._alias()
            if self._word() == "[":
                if clauses.window is not None:
                    self._fail("there is a window already: leave out the brackets or the window function.")
                clauses.window = self._brackets()
                clauses.alias = clauses.alias or self._alias()

        def _alias(self) -> Name | None:
            if self._take("AS"):
                return self._name("the name after AS")
            after = self._next.text.upper().split(" ")[0] if self._next else ""
            named = self._is_name() and self._word() not in _CLAUSES and after in {"", "[", *_CLAUSES}
            return self._name("a name") if named else None

        def _call(self) -> Call:
            function = self._name("the window function")
            self._need("(", f"after {function.text.upper()}")
            self._take("DATA", "=>")
            self._take("TABLE")
            if self._word() in ("(", "SELECT"):
                self._fail(f"subqueries are not supported: {_AFTER_FROM}.")
            table = self._name(f"the table of {function.text.upper()}")
            partition = self._partition()
            arguments = []
            while self._take(","):
                arguments.append(self._argument(function))
            self._need(")", f"after the arguments of {function.text.upper()}")
            return Call(function, table, partition, tuple(arguments))

        def _partition(self) -> tuple[Name, ...]:
            if not self._curr or self._curr.token_type != TokenType.PARTITION_BY:
                return ()
            self._advance()
            return self._names("the column after PARTITION BY")

        def _argument(self, function: Name) -> Part:
            what = f"an argument of {function.text.upper()}"
            if self._next and self._next.token_type == TokenType.FARROW:
                name = Name(self._curr.text, self._at())
                self._advance(2)
                value = self._expression(what)
                return Part(value.node, value.at, name)
            return self._expression(what)

        def _brackets(self) -> Brackets:
            at = self._at()
            self._advance()
            partition = self._partition()
            time = self._wattr()
            if self._take("ROWS"):
                span = self._amount("ROWS", rows=True)
                if not span.rows:
                    self._fail("ROWS counts records: write RANGE for a duration.", span.at)
            elif self._take("RANGE"):
                span = self._amount("RANGE")
            else:
                self._refuse_unbounded()
                self._fail(f"a window in brackets is RANGE or ROWS and perhaps SLIDE, not {self._shown()}.")
            time = time or self._wattr()
            slide = self._amount("SLIDE", rows=span.rows) if self._take("SLIDE") else None
            time = time or self._wattr()
            self._need("]", "after the window")
            return Brackets(at, span, slide, time, partition)

        def _refuse_unbounded(self) -> None:
            if self._word() in _UNBOUNDED:
                self._fail(f"{_UNBOUNDED[self._word()]}.")

        def _wattr(self) -> Name | None:
            return self._name("the column after WATTR") if self._take("WATTR") else None

        def _amount(self, after: str, rows: bool = False) -> Amount:
            """Read a number with a unit, an interval or a text; `rows` is what a bare number counts."""
            self._refuse_unbounded()
            at = self._at()
            bare = self._curr and self._curr.token_type == TokenType.NUMBER
            node = self._parse_interval() if self._word() == "INTERVAL" else self._parse_primary()
            if node is None:
                self._fail(f"the amount after {after} is missing{self._instead()}.", at)
            if not bare:
                return Amount(node, False, at)
            if self._take("ROWS") or self._take("ROW"):
                return Amount(node, True, at)
            if self._is_name() and self._word() not in ("SLIDE", "WATTR"):
                unit = exp.Var(this=self._word())
                self._advance()
                return Amount(exp.Interval(this=exp.Literal.string(node.name), unit=unit), False, at)
            return Amount(node, rows, at)


def _plain(token: Token) -> bool:
    """Tell whether a token is a word of the grammar, and no quoted name or text."""
    return token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING)


def parse(text: str) -> list[Clauses]:
    """Cut a text into statements and these into clauses."""
    dialect = StreamSql()
    try:
        parser = dialect.parser(error_level=ErrorLevel.IMMEDIATE)
        parsed = parser.parse(grammar.tokenize(text, dialect), text)
    except grammar.TooLargeError as error:
        raise SqlError(text, error.at, f"the text is too large: {error}.") from error
    except TokenError as error:
        raise SqlError(text, grammar.left_open(text), "what begins here is never closed.") from error
    except ParseError as error:
        unread = error if isinstance(error, Unread) else error.__cause__  # sqlglot may have tried further
        assert isinstance(unread, Unread)
        raise SqlError(text, unread.at, unread.sentence) from error
    except RecursionError as error:
        raise SqlError(text, 0, f"the text is too large: {grammar.NO_STACK}.") from error
    found = [node.args["clauses"] for node in parsed if node is not None]
    if not found:
        raise SqlError(text, 0, f"there is no statement: {_STATEMENTS}.")
    return found
