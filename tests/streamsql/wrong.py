"""Statements that are wrong, and what is said of each."""

WRONG = [
    (
        "",
        "line 1, column 1: there is no statement: statements are SELECT, INSERT INTO name SELECT, CREATE "
        "VIEW name AS SELECT and EXPLAIN SELECT.",
    ),
    (
        ";",
        "line 1, column 1: there is no statement: statements are SELECT, INSERT INTO name SELECT, CREATE "
        "VIEW name AS SELECT and EXPLAIN SELECT.",
    ),
    (
        "SELEC a FROM t",
        "line 1, column 1: 'SELEC' begins no statement: statements are SELECT, INSERT INTO name SELECT, "
        "CREATE VIEW name AS SELECT and EXPLAIN SELECT.",
    ),
    (
        "DROP TABLE t",
        "line 1, column 1: 'DROP' begins no statement: statements are SELECT, INSERT INTO name SELECT, "
        "CREATE VIEW name AS SELECT and EXPLAIN SELECT.",
    ),
    (
        "WITH x AS (SELECT 1) SELECT COUNT(*) FROM x [ROWS 2]",
        "line 1, column 1: WITH is not supported: put queries side by side as statements with ; between "
        "them.",
    ),
    (
        "SELECT DISTINCT a FROM t [ROWS 2]",
        "line 1, column 8: SELECT DISTINCT is not supported: GROUP BY the columns, or COUNT(DISTINCT v).",
    ),
    (
        "SELECT * FROM TUMBLE(t, ts, 10)",
        "line 1, column 8: SELECT * is not supported: name keys, window columns and aggregates.",
    ),
    ("SELECT COUNT(*)", "line 1, column 16: FROM is missing after the columns of SELECT."),
    ("SELECT COUNT(*) FROM", "line 1, column 21: the table after FROM is missing."),
    ("SELECT FROM t [ROWS 2]", "line 1, column 8: a column after SELECT is missing, where 'FROM' stands."),
    (
        "SELECT COUNT(*) FROM t",
        "line 1, column 1: the statement has no window: take FROM TUMBLE(table, time, size), FROM table "
        "[RANGE 10 MINUTES] or GROUP BY window(time, '10 minutes').",
    ),
    (
        "SELECT COUNT(*) FROM SLIDING(t, ts, 10, 5)",
        "line 1, column 22: there is no window function SLIDING: the nearest is HOP.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBEL(t, ts, 10)",
        "line 1, column 22: there is no window function TUMBEL: the nearest is TUMBLE.",
    ),
    (
        "SELECT COUNT(*) FROM FOO(t, ts, 10)",
        "line 1, column 22: there is no window function FOO: there are AGGREGATE_FRAME, CALENDAR, "
        "COUNT_WINDOW, CUMULATE, DELTA_FRAME, HOP, LANDMARK, LAST_N, LAST_SPAN, ON_MEASURE, "
        "POLICY_WINDOW, PUNCTUATION, ROLLING, SESSION, STATE_WINDOW, THRESHOLD_FRAME and TUMBLE.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts)",
        "line 1, column 22: size of TUMBLE is missing: write TUMBLE(table, time, size[, offset]).",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE()",
        "line 1, column 29: the table of TUMBLE is missing, where ')' stands.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, 10, 2, 3)",
        "line 1, column 43: TUMBLE takes no further argument: write TUMBLE(table, time, size[, offset]).",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, sizes => 10)",
        "line 1, column 36: TUMBLE has no argument sizes: the nearest is SIZE, as in TUMBLE(table, time, "
        "size[, offset]).",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, 10, size => 10)",
        "line 1, column 40: size of TUMBLE is given twice: write TUMBLE(table, time, size[, offset]).",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, INTERVAL '1' MONTH)",
        "line 1, column 36: size of TUMBLE is INTERVAL '1' MONTH, which has no fixed length: the nearest "
        "is CALENDAR(table, time, 'month').",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, INTERVAL '1.5' SECOND)",
        "line 1, column 36: size of TUMBLE is INTERVAL '1.5' SECOND, but counts whole units only: take a "
        "smaller unit, as in INTERVAL '1500' MILLISECOND.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, INTERVAL '1' FORTNIGHT)",
        "line 1, column 36: size of TUMBLE is INTERVAL '1' FORTNIGHT, whose unit is not supported: units "
        "are NANOSECOND, MICROSECOND, MILLISECOND, SECOND, MINUTE, HOUR, DAY and WEEK.",
    ),
    (
        'SELECT COUNT(*) FROM TUMBLE(t, ts, "10 minutes")',
        "line 1, column 36: size of TUMBLE is a duration such as INTERVAL '10' MINUTE or '10 minutes', "
        'not "10 minutes": texts stand in single quotes.',
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, '10 minits')",
        "line 1, column 36: size of TUMBLE is '10 minits', which is no duration: write '500ms', '10s', "
        "'5m', '2h', '1d', '1h30m' or '10 minutes'.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, 0)",
        "line 1, column 36: size of TUMBLE must be above zero, not 0.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, 1.5)",
        "line 1, column 36: size of TUMBLE is a duration such as INTERVAL '10' MINUTE or '10 minutes', "
        "not 1.5.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, 'ts', 10)",
        "line 1, column 32: time of TUMBLE is a column, not 'ts': texts stand in single quotes, names in "
        "none or in double quotes.",
    ),
    (
        "SELECT COUNT(*) FROM CUMULATE(t, ts, 3, 10)",
        "line 1, column 22: step must divide length, but 10 is no multiple of 3.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, 10",
        "line 1, column 38: ) is missing after the arguments of TUMBLE.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE((SELECT * FROM t), ts, 10)",
        "line 1, column 29: subqueries are not supported: prepare the stream before, and name one table "
        "after FROM.",
    ),
    (
        "SELECT COUNT(*) FROM (SELECT * FROM t) [ROWS 2]",
        "line 1, column 22: subqueries are not supported: prepare the stream before, and name one table "
        "after FROM.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2] WHERE a IN (SELECT b FROM c)",
        "line 1, column 39: subqueries are not supported: prepare the stream before, and name one table "
        "after FROM.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2] JOIN u ON t.a = u.a",
        "line 1, column 33: joins are not supported: prepare the stream before, and name one table after "
        "FROM.",
    ),
    (
        "SELECT COUNT(*) FROM t, u [ROWS 2]",
        "line 1, column 23: joins are not supported: prepare the stream before, and name one table after "
        "FROM.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2] ORDER BY a",
        "line 1, column 33: ORDER BY is not supported: rows come out by window_end and window_start.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2] LIMIT 5",
        "line 1, column 33: LIMIT is not supported: a stream has no last row; HAVING leaves windows out.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2] UNION ALL SELECT COUNT(*) FROM t [ROWS 3]",
        "line 1, column 33: UNION is not supported: put queries side by side as statements with ; "
        "between them.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2] GRUP BY a",
        "line 1, column 33: 'GRUP' does not belong here: the nearest is GROUP BY.",
    ),
    ("SELECT COUNT(*) FROM t [ROWS 2] WHERE", "line 1, column 38: the condition after WHERE is missing."),
    (
        "SELECT COUNT(*) FROM t [ROWS 2] WHERE a > ",
        "line 1, column 42: the rest of the expression is missing after '>'.",
    ),
    ("SELECT COUNT(*) FROM t [ROWS 2] WHERE (a > 1", "line 1, column 45: ) is missing after '1'."),
    (
        "SELECT COUNT(*) FROM t [ROWS 2] WHERE a > > 1",
        "line 1, column 39: 'a >> 1' is no expression over a record's columns.",
    ),
    ("SELECT COUNT(*) FROM t [ROWS 2] WHERE a = 'x", "line 1, column 43: what begins here is never closed."),
    (
        "SELECT COUNT(*) FROM t [ROWS 2] WHERE COUNT(*) > 5",
        "line 1, column 39: WHERE sees single records, not COUNT(*): put that into HAVING.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2] WHERE window_start > 5",
        "line 1, column 39: WHERE sees records before they have windows: put window_start into HAVING.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2] WHERE FOO(a) > 5",
        "line 1, column 39: there is no function FOO; there are COALESCE, ABS, ROUND, FLOOR, CEIL, SQRT, "
        "LN, EXP, UPPER, LOWER, LENGTH and CAST.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2] WHERE u.a > 5",
        "line 1, column 39: there is no table u here: columns are those of t.",
    ),
    (
        "SELECT COUNT(*) AS n FROM t [ROWS 2] HAVING SUM(v) > 5",
        "line 1, column 45: HAVING needs SUM(v) among the columns: add it to SELECT.",
    ),
    (
        "SELECT COUNT(*) AS n FROM t [ROWS 2] HAVING v > 5",
        "line 1, column 45: HAVING sees the columns of rows, of which v is none: there are n, "
        "window_start, window_end.",
    ),
    ("SELECT COUNT(*) AS n FROM t [ROWS 0]", "line 1, column 29: n must be above zero, not 0."),
    (
        "SELECT COUNT(*) AS n FROM t [NOW]",
        "line 1, column 30: [NOW] is not supported: the nearest is [ROWS 1].",
    ),
    (
        "SELECT COUNT(*) AS n FROM t [RANGE UNBOUNDED]",
        "line 1, column 36: windows without an end are not supported: the nearest is LANDMARK(table, "
        "time, when).",
    ),
    ("SELECT COUNT(*) AS n FROM t [RANGE 5 SECONDS", "line 1, column 45: ] is missing after the window."),
    (
        "SELECT COUNT(*) AS n FROM TUMBLE(t, ts, 5) [RANGE 5 SECONDS]",
        "line 1, column 44: there is a window already: leave out the brackets or the window function.",
    ),
    (
        "SELECT a, COUNT(*) AS n FROM t [ROWS 2]",
        "line 1, column 8: a is no key: add it to GROUP BY, or take an aggregate such as LAST_VALUE(a).",
    ),
    (
        "SELECT a + 1, COUNT(*) AS n FROM t [ROWS 2] GROUP BY a",
        "line 1, column 8: a + 1 is neither a key, nor a column of the window, nor an aggregate such as "
        "SUM(v).",
    ),
    (
        "SELECT a, COUNT(*) AS n FROM TUMBLE(t, ts, 5) GROUP BY a",
        "line 1, column 56: GROUP BY names no column of the window: add window_start and window_end.",
    ),
    (
        "SELECT a, COUNT(*) AS n FROM SESSION(t PARTITION BY b, ts, 5) GROUP BY a, window_start",
        "line 1, column 72: windows are cut for each key: GROUP BY must name the columns of PARTITION BY, b.",
    ),
    (
        "SELECT COUNT(*) AS n FROM t [ROWS 2] GROUP BY a + 1",
        "line 1, column 47: GROUP BY takes columns and windows, not a + 1: make it a column of the table.",
    ),
    (
        "SELECT window_start FROM t [ROWS 2]",
        "line 1, column 1: SELECT has no aggregate: add one, such as COUNT(*).",
    ),
    (
        "SELECT window_time, COUNT(*) FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: there is no window_time: the nearest is window_end, which lies just after it.",
    ),
    (
        "SELECT measure_start, COUNT(*) FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: only ON_MEASURE has measure_start: the nearest is window_start.",
    ),
    (
        "SELECT window_start AS s, COUNT(*) FROM TUMBLE(t, ts, 5)",
        "line 1, column 24: rows have window_start under that name: leave AS out.",
    ),
    (
        "SELECT COUNT(*) AS window_start FROM TUMBLE(t, ts, 5)",
        "line 1, column 20: rows have another column window_start: give the aggregate another name with AS.",
    ),
    (
        "SELECT COUNT(*) AS n, SUM(v) AS n FROM TUMBLE(t, ts, 5)",
        "line 1, column 33: two columns are called n: give one another name with AS.",
    ),
    (
        "SELECT AVGG(v) FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: there is no aggregate AVGG: the nearest is AVG.",
    ),
    (
        "SELECT RANK() FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: there is no aggregate RANK: the nearest is APPROX_TOP_K(v, k).",
    ),
    (
        "SELECT XYZZY(v) FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: there is no aggregate XYZZY: there are COUNT, SUM, AVG, MIN, MAX and those in "
        "the table of docs/sql.md.",
    ),
    ("SELECT SUM(*) FROM TUMBLE(t, ts, 5)", "line 1, column 8: SUM takes a column: only COUNT takes *."),
    (
        "SELECT SUM() FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: SUM is written SUM(v), not with 0 argument(s).",
    ),
    (
        "SELECT SUM(v, w) FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: SUM is written SUM(v), not with 2 argument(s).",
    ),
    (
        "SELECT SUM(DISTINCT v) FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: SUM(DISTINCT ...) is not supported: the nearest are COUNT(DISTINCT v) and "
        "ARRAY_AGG(DISTINCT v).",
    ),
    (
        "SELECT COUNT(DISTINCT v, w) FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: COUNT(DISTINCT ...) takes one column: write two aggregates.",
    ),
    (
        "SELECT SUM(MAX(v)) FROM TUMBLE(t, ts, 5)",
        "line 1, column 12: MAX(v) stands inside an aggregate: select it by itself.",
    ),
    (
        "SELECT MAX(v) - MIN(v) AS d FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: MAX(v) - MIN(v) computes with an aggregate, which is not supported: select "
        "MAX(v) itself, and compute with the rows.",
    ),
    (
        "SELECT PERCENTILE_CONT(0.9) FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: PERCENTILE_CONT needs its column: write PERCENTILE_CONT(q) WITHIN GROUP "
        "(ORDER BY v).",
    ),
    (
        "SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY v DESC) FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: PERCENTILE_CONT takes values in ascending order only: leave DESC out.",
    ),
    (
        "SELECT PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY v) FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: there is no aggregate PERCENTILE_DISC: the nearest is PERCENTILE_CONT(q) "
        "WITHIN GROUP (ORDER BY v), which interpolates.",
    ),
    (
        "SELECT QUANTILE(v) FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: QUANTILE is written QUANTILE(v, q), not with 1 argument(s).",
    ),
    (
        "SELECT LISTAGG(s, 1) FROM TUMBLE(t, ts, 5)",
        "line 1, column 19: the separator of LISTAGG is a text, not 1.",
    ),
    (
        "SELECT LISTAGG(s, ',') WITHIN GROUP (ORDER BY v) FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: LISTAGG takes records in the order of time: leave ORDER BY out, or order by ts.",
    ),
    (
        "SELECT FIRST_VALUE(v) RESPECT NULLS FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: FIRST_VALUE skips nulls, as all aggregates do: leave RESPECT NULLS out.",
    ),
    (
        "SELECT SUM(v ORDER BY ts) FROM TUMBLE(t, ts, 5)",
        "line 1, column 8: SUM takes no ORDER BY: write SUM(v).",
    ),
    (
        "SELECT AVG(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND "
        "CURRENT ROW) FROM t",
        "line 1, column 8: OVER with RANGE is not supported, as it takes in both ends and all records of "
        "one time: the nearest is FROM ROLLING(t, ts, length), with windows (t - length, t], or ROWS "
        "BETWEEN n PRECEDING AND CURRENT ROW.",
    ),
    (
        "SELECT AVG(v) OVER (PARTITION BY k ORDER BY ts) FROM t",
        "line 1, column 8: OVER without a bound behind is not supported: the nearest is ROWS BETWEEN n "
        "PRECEDING AND CURRENT ROW.",
    ),
    (
        "SELECT AVG(v) OVER w FROM t WINDOW w AS (ORDER BY ts)",
        "line 1, column 29: a WINDOW clause is not supported: write the window itself after OVER.",
    ),
    (
        "SELECT AVG(v) OVER (ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t",
        "line 1, column 8: OVER needs the time column in order, as in ORDER BY ts.",
    ),
    (
        "SELECT AVG(v) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) FROM t",
        "line 1, column 8: this frame of OVER is not supported: the nearest is ROWS BETWEEN n PRECEDING "
        "AND CURRENT ROW.",
    ),
    (
        "SELECT ts, AVG(v) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t",
        "line 1, column 8: rows have ts as window_end: write window_end.",
    ),
    (
        "SELECT SUM(v), AVG(v) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t",
        "line 1, column 8: some aggregates have OVER and some have not: write it after each.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, 5) EMIT ALL",
        "line 1, column 44: EMIT takes EMPTY, PARTIAL, ON CHANGE or EARLY EVERY, not 'ALL'.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, 5) EMIT EARLY 5",
        "line 1, column 50: EVERY is missing after EARLY, where '5' stands.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, 5) EMIT EARLY EVERY",
        "line 1, column 55: the duration after EARLY EVERY is missing.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, 5) EMIT EARLY EVERY soon",
        "line 1, column 56: EARLY EVERY is a duration such as INTERVAL '10' MINUTE or '10 minutes', not soon"
        ": texts stand in single quotes.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, 5) EMIT EMPTY, EARLY EVERY 5",
        "line 1, column 44: early and emit_empty exclude each other: leave one of them out.",
    ),
    (
        "SELECT COUNT(*) FROM SESSION(t, ts, 5) EMIT EMPTY",
        "line 1, column 45: emit_empty is for windows on a time grid; a session is never empty.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, 5) EMIT PARTIAL",
        "line 1, column 44: emit_partial is for count windows, not for a tumbling.",
    ),
    (
        "INSERT INTO q SELECT COUNT(*) FROM t [ROWS 2]; INSERT INTO q SELECT SUM(v) FROM t [ROWS 2]",
        "line 1, column 60: two queries are called q: rename one.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2]; SELECT COUNT(*) FROM u [ROWS 2]",
        "line 1, column 34: the table differs from that of the first statement: call sql for each.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2]; SELECT a, COUNT(*) FROM t [ROWS 2] GROUP BY a",
        "line 1, column 34: the key differs from that of the first statement: call sql for each.",
    ),
    (
        "CREATE TABLE x AS SELECT 1",
        "line 1, column 8: CREATE makes views only, where 'TABLE' stands: statements are SELECT, INSERT "
        "INTO name SELECT, CREATE VIEW name AS SELECT and EXPLAIN SELECT.",
    ),
    ("INSERT x SELECT 1", "line 1, column 8: INTO is missing after INSERT, where 'x' stands."),
    (
        "SELECT COUNT(*) FROM THRESHOLD_FRAME(t, ts, temp BETWEEN 1 AND 2)",
        "line 1, column 45: condition of THRESHOLD_FRAME compares a column with a value, as in temp > "
        "80, which temp BETWEEN 1 AND 2 does not.",
    ),
    (
        "SELECT COUNT(*) FROM AGGREGATE_FRAME(t, ts, SUM(v) > 5)",
        "line 1, column 45: condition of AGGREGATE_FRAME is an aggregate that reaches a number, as in "
        "SUM(volume) >= 100, which SUM(v) > 5 is not.",
    ),
    (
        "SELECT COUNT(*) FROM AGGREGATE_FRAME(t, ts, v >= 5)",
        "line 1, column 45: v is no aggregate: write one such as SUM(v).",
    ),
    (
        "SELECT COUNT(*) FROM ON_MEASURE(t, ts, SESSION(km, 5))",
        "line 1, column 40: window of ON_MEASURE is TUMBLE, HOP or CUMULATE over a column, as in HOP(km, "
        "5, 10), not SESSION(km, 5).",
    ),
    (
        "SELECT COUNT(*) FROM POLICY_WINDOW(t, ts, KEEP(5), KEEP(5))",
        "line 1, column 43: trigger of POLICY_WINDOW is one of EVERY(n), WHEN(column), not KEEP(5).",
    ),
    (
        "SELECT COUNT(*) FROM CALENDAR(t, ts, 'decade')",
        "line 1, column 22: unit is one of 'day', 'week', 'month', 'quarter', 'year', not 'decade'.",
    ),
    (
        "SELECT COUNT(*) FROM LANDMARK(t, ts, p, until => q, length => 5)",
        "line 1, column 22: LANDMARK ends where until says, or after length: give one of them.",
    ),
    (
        "SELECT COUNT(*) FROM ROLLING(t, ts)",
        "line 1, column 22: ROLLING takes a length, or rows => n: give one of them.",
    ),
    (
        "SELECT COUNT(*) FROM COUNT_WINDOW(t, ts, '5 s')",
        "line 1, column 42: n of COUNT_WINDOW is a number, not '5 s'.",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY window(ts)",
        "line 1, column 33: length of WINDOW is missing: write WINDOW(time, length[, slide][, offset]).",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY window(ts, '5 s'), window(ts, '10 s')",
        "line 1, column 52: there is another window: a statement has one; take a statement for each.",
    ),
    (
        "SELECT window.foo, COUNT(*) FROM t GROUP BY window(ts, '5 s')",
        "line 1, column 8: window has start and end, not foo.",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)",
        "line 1, column 33: TUMBLE stands after FROM, not in GROUP BY: write FROM TUMBLE(table, time, "
        "size[, offset]).",
    ),
    (
        "SELECT COUNT(*) FROM WINDOW(t, ts, '5 s')",
        "line 1, column 22: there is no window function WINDOW: the nearest is TUMBLE or HOP here, or "
        "window(time, length, slide) in GROUP BY.",
    ),
    (
        "SELECT COUNT(*) AS FROM t [ROWS 2]",
        "line 1, column 20: the name after AS is missing, where 'FROM' stands.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2] GROUP a",
        "line 1, column 33: 'GROUP' does not belong here: write GROUP BY.",
    ),
    (
        "SELECT window(ts, '5 s'), COUNT(*) FROM t GROUP BY window(ts, '5 s')",
        "line 1, column 8: window stands in GROUP BY: select window.start and window.end.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2] EMIT ON EMPTY",
        "line 1, column 38: EMIT takes EMPTY, PARTIAL, ON CHANGE or EARLY EVERY, not 'ON'.",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY k, window(ts, '5 s') OVER",
        "line 1, column 1: the statement has no window: take FROM TUMBLE(table, time, size), FROM table "
        "[RANGE 10 MINUTES] or GROUP BY window(time, '10 minutes').",
    ),
    (
        "SELECT COUNT(*) c d FROM t [ROWS 2]",
        "line 1, column 17: FROM is missing after the columns of SELECT, where 'c' stands.",
    ),
    (
        "SELECT COUNT(*) FROM TABLE TUMBLE(t, ts, 10)",
        "line 1, column 28: ( is missing after TABLE, where 'TUMBLE' stands.",
    ),
    (
        "SELECT COUNT(*), FROM t [ROWS 2]",
        "line 1, column 18: a column after SELECT is missing, where 'FROM' stands.",
    ),
    (
        "SELECT COUNT(*) FROM t [SLIDE 2]",
        "line 1, column 25: a window in brackets is RANGE or ROWS and perhaps SLIDE, not 'SLIDE'.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2 SLIDE]",
        "line 1, column 37: the amount after SLIDE is missing, where ']' stands.",
    ),
    (
        "SELECT COUNT(*) FROM t [RANGE -5]",
        "line 1, column 31: the amount after RANGE is missing, where '-' stands.",
    ),
    (
        "SELECT COUNT(*) FROM t [RANGE 5 SLIDE 5 SECONDS]",
        "line 1, column 24: RANGE is 5 and SLIDE is 5s: give both a unit, or none.",
    ),
    (
        'SELECT SUM(v) AS "k" FROM t [ROWS 2] GROUP BY k',
        "line 1, column 18: rows have another column k: give the aggregate another name with AS.",
    ),
    (
        "SELECT SUM(v) FROM HOP(TABLE t, DESCRIPTOR(ts, u), 1, 2)",
        "line 1, column 33: time of HOP is a column, not DESCRIPTOR(ts, u).",
    ),
    ("SELECT SUM(v) FROM t GROUP BY k HAVING", "line 1, column 39: the condition after HAVING is missing."),
    ("SELECT SUM(v) FROM `t [ROWS 2]", "line 1, column 20: what begins here is never closed."),
    ("SELECT SUM(v) FROM t /* [ROWS 2]", "line 1, column 22: what begins here is never closed."),
    (
        "SELECT SUM(v) FILTER (WHERE MAX(w) > 2) AS s FROM t [ROWS 2]",
        "line 1, column 29: MAX(w) stands inside an aggregate: select it by itself.",
    ),
    (
        "SELECT SUM(UPPER(v, 1)) AS s FROM t [ROWS 2]",
        "line 1, column 12: the expression 'UPPER(v, 1)' is no valid SQL.",
    ),
    (
        "SELECT SUM(x.v) FROM t AS y [ROWS 2]",
        "line 1, column 12: there is no table x here: columns are those of t or y.",
    ),
    (
        "SELECT GROUPING(k), SUM(v) FROM t [ROWS 2] GROUP BY CUBE(k)",
        "line 1, column 53: GROUP BY CUBE is not supported: name keys and window columns.",
    ),
    (
        "SELECT SUM(v) FROM t [ROWS 2] GROUP BY ALL",
        "line 1, column 40: GROUP BY ALL is not supported: name keys and window columns.",
    ),
    (
        "SELECT SUM(v) FROM TUMBLE(t, ts, 5) GROUP BY window_start, window_time",
        "line 1, column 60: there is no window_time: the nearest is window_end, which lies just after it.",
    ),
    (
        "SELECT SUM(v) FROM t [ROWS 5 MINUTES]",
        "line 1, column 28: ROWS counts records: write RANGE for a duration.",
    ),
    ("SELECT SUM(w, ) FROM t [ROWS 2]", "line 1, column 15: an argument is missing, where ')' stands."),
    ("SELECT SUM(w AS x) FROM t [ROWS 2]", "line 1, column 14: ) is missing, where 'AS' stands."),
    ("SELECT SUM(CAST(w AS INT) FROM t [ROWS 2]", "line 1, column 27: ) is missing, where 'FROM' stands."),
    (
        "SELECT COALESCE(MAX(v), 0) FROM t [ROWS 2]",
        "line 1, column 8: COALESCE(MAX(v), 0) computes with an aggregate, which is not supported: "
        "select MAX(v) itself, and compute with the rows.",
    ),
    (
        "SELECT ABS(v) FROM t [ROWS 2]",
        "line 1, column 8: there is no aggregate ABS: there are COUNT, SUM, AVG, MIN, MAX and those in "
        "the table of docs/sql.md.",
    ),
    (
        "SELECT ARRAY_AGG(v LIMIT 3) FROM t [ROWS 2]",
        "line 1, column 18: the expression 'v LIMIT 3' is no valid SQL.",
    ),
    (
        "SELECT COUNT(*) AS n,\n  AVGG(v) AS a\nFROM t [ROWS 2]",
        "line 2, column 3: there is no aggregate AVGG: the nearest is AVG.",
    ),
    (
        "SELECT COUNT(*) FROM t [ROWS 2];\nSELECT COUNT(*) FROM HOPP(t, ts, 1, 2)",
        "line 2, column 22: there is no window function HOPP: the nearest is HOP.",
    ),
    (
        "SELECT COUNT(*) FROM HOP(t, ts, 5, '10 s')",
        "line 1, column 22: size is 10 s and slide is 5: give both a unit, or none.",
    ),
    (
        "SELECT COUNT(*) FROM t WHERE a > 1 [ROWS 2]",
        "line 1, column 42: the expression cannot be read from '2' on.",
    ),
    (
        "SELECT COUNT(*) FROM TUMBLE(t, ts, 10); SELECT COUNT(*) FROM TUMBLE(t, tt, 10)",
        "line 1, column 41: the time column differs from that of the first statement: call sql for each.",
    ),
]
