#!/usr/bin/env python3
"""The 22 queries of TPC-H: Colibri's server beside PostgreSQL's, in turn, medians of the rounds.

    pip install tpchgen-cli
    scripts/tpch.py target/release/colibri [--pg-bin /usr/lib/postgresql/15/bin] [--scale 0.1] [--rounds 3] [--only q5,q20]
        [--one-thread]

The data come from tpchgen-cli, the parameters are those that the specification validates with. Both servers have the same
keys and indexes and the same work_mem, listen on loopback and keep their files below the same directory. PostgreSQL has two
parallel workers for a query and JIT, as by default; with --one-thread neither, as Colibri runs a statement on one thread.
Each query has to give the same rows on both. Needs psql; as root, PostgreSQL runs as the user `postgres`. Nothing is left
behind.
"""

import argparse
import decimal
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import servers

TABLES = {
    "region": "r_regionkey int PRIMARY KEY, r_name text NOT NULL, r_comment text",
    "nation": "n_nationkey int PRIMARY KEY, n_name text NOT NULL, n_regionkey int NOT NULL, n_comment text",
    "part": """p_partkey int PRIMARY KEY, p_name text NOT NULL, p_mfgr text NOT NULL, p_brand text NOT NULL, p_type text NOT NULL,
        p_size int NOT NULL, p_container text NOT NULL, p_retailprice decimal(15, 2) NOT NULL, p_comment text NOT NULL""",
    "supplier": """s_suppkey int PRIMARY KEY, s_name text NOT NULL, s_address text NOT NULL, s_nationkey int NOT NULL,
        s_phone text NOT NULL, s_acctbal decimal(15, 2) NOT NULL, s_comment text NOT NULL""",
    "partsupp": """ps_partkey int, ps_suppkey int, ps_availqty int NOT NULL, ps_supplycost decimal(15, 2) NOT NULL,
        ps_comment text NOT NULL, PRIMARY KEY (ps_partkey, ps_suppkey)""",
    "customer": """c_custkey int PRIMARY KEY, c_name text NOT NULL, c_address text NOT NULL, c_nationkey int NOT NULL,
        c_phone text NOT NULL, c_acctbal decimal(15, 2) NOT NULL, c_mktsegment text NOT NULL, c_comment text NOT NULL""",
    "orders": """o_orderkey bigint PRIMARY KEY, o_custkey int NOT NULL, o_orderstatus text NOT NULL,
        o_totalprice decimal(15, 2) NOT NULL, o_orderdate date NOT NULL, o_orderpriority text NOT NULL, o_clerk text NOT NULL,
        o_shippriority int NOT NULL, o_comment text NOT NULL""",
    "lineitem": """l_orderkey bigint, l_partkey int NOT NULL, l_suppkey int NOT NULL, l_linenumber int,
        l_quantity decimal(15, 2) NOT NULL, l_extendedprice decimal(15, 2) NOT NULL, l_discount decimal(15, 2) NOT NULL,
        l_tax decimal(15, 2) NOT NULL, l_returnflag text NOT NULL, l_linestatus text NOT NULL, l_shipdate date NOT NULL,
        l_commitdate date NOT NULL, l_receiptdate date NOT NULL, l_shipinstruct text NOT NULL, l_shipmode text NOT NULL,
        l_comment text NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber)""",
}

INDEXES = """
CREATE INDEX s_n ON supplier (s_nationkey); CREATE INDEX ps_s ON partsupp (ps_suppkey); CREATE INDEX c_n ON customer (c_nationkey);
CREATE INDEX o_c ON orders (o_custkey); CREATE INDEX l_ps ON lineitem (l_partkey, l_suppkey); CREATE INDEX l_s ON lineitem (l_suppkey);
ANALYZE;
"""

QUERIES = {
    "q1": """SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
        sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
        FROM lineitem WHERE l_shipdate <= date '1998-12-01' - interval '90' day
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    "q2": """SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        FROM part, supplier, partsupp, nation, region
        WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS'
        AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE' AND ps_supplycost =
        (SELECT min(ps_supplycost) FROM partsupp, supplier, nation, region WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey
        AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE')
        ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100""",
    "q3": """SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
        FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
        AND o_orderdate < date '1995-03-15' AND l_shipdate > date '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10""",
    "q4": """SELECT o_orderpriority, count(*) FROM orders
        WHERE o_orderdate >= date '1993-07-01' AND o_orderdate < date '1993-07-01' + interval '3' month
        AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority ORDER BY o_orderpriority""",
    "q5": """SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM customer, orders, lineitem, supplier, nation, region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
        AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
        AND o_orderdate >= date '1994-01-01' AND o_orderdate < date '1994-01-01' + interval '1' year
        GROUP BY n_name ORDER BY revenue DESC""",
    "q6": """SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= date '1994-01-01'
        AND l_shipdate < date '1994-01-01' + interval '1' year AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24""",
    "q7": """SELECT supp_nation, cust_nation, l_year, sum(volume) FROM
        (SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, extract(year FROM l_shipdate) AS l_year,
        l_extendedprice * (1 - l_discount) AS volume FROM supplier, lineitem, orders, customer, nation n1, nation n2
        WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey AND s_nationkey = n1.n_nationkey
        AND c_nationkey = n2.n_nationkey AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY')
        OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE')) AND l_shipdate BETWEEN date '1995-01-01' AND date '1996-12-31') AS shipping
        GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation, l_year""",
    "q8": """SELECT o_year, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume) FROM
        (SELECT extract(year FROM o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume, n2.n_name AS nation
        FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
        WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
        AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA' AND s_nationkey = n2.n_nationkey
        AND o_orderdate BETWEEN date '1995-01-01' AND date '1996-12-31' AND p_type = 'ECONOMY ANODIZED STEEL') AS all_nations
        GROUP BY o_year ORDER BY o_year""",
    "q9": """SELECT nation, o_year, sum(amount) FROM
        (SELECT n_name AS nation, extract(year FROM o_orderdate) AS o_year,
        l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
        FROM part, supplier, lineitem, partsupp, orders, nation WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey
        AND ps_partkey = l_partkey AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey
        AND p_name LIKE '%green%') AS profit GROUP BY nation, o_year ORDER BY nation, o_year DESC""",
    "q10": """SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address, c_phone, c_comment
        FROM customer, orders, lineitem, nation WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
        AND o_orderdate >= date '1993-10-01' AND o_orderdate < date '1993-10-01' + interval '3' month
        AND l_returnflag = 'R' AND c_nationkey = n_nationkey
        GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment ORDER BY revenue DESC, c_custkey LIMIT 20""",
    "q11": """SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp, supplier, nation
        WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'
        GROUP BY ps_partkey HAVING sum(ps_supplycost * ps_availqty) >
        (SELECT sum(ps_supplycost * ps_availqty) * 0.001 FROM partsupp, supplier, nation
        WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY') ORDER BY value DESC, ps_partkey""",
    "q12": """SELECT l_shipmode, sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END),
        sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END)
        FROM orders, lineitem WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate
        AND l_shipdate < l_commitdate AND l_receiptdate >= date '1994-01-01'
        AND l_receiptdate < date '1994-01-01' + interval '1' year GROUP BY l_shipmode ORDER BY l_shipmode""",
    "q13": """SELECT c_count, count(*) AS custdist FROM
        (SELECT c_custkey, count(o_orderkey) FROM customer LEFT OUTER JOIN orders
        ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%' GROUP BY c_custkey) AS c_orders (c_custkey, c_count)
        GROUP BY c_count ORDER BY custdist DESC, c_count DESC""",
    "q14": """SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
        / sum(l_extendedprice * (1 - l_discount)) FROM lineitem, part WHERE l_partkey = p_partkey
        AND l_shipdate >= date '1995-09-01' AND l_shipdate < date '1995-09-01' + interval '1' month""",
    "q15": """WITH revenue (supplier_no, total_revenue) AS
        (SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) FROM lineitem WHERE l_shipdate >= date '1996-01-01'
        AND l_shipdate < date '1996-01-01' + interval '3' month GROUP BY l_suppkey)
        SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue
        WHERE s_suppkey = supplier_no AND total_revenue = (SELECT max(total_revenue) FROM revenue) ORDER BY s_suppkey""",
    "q16": """SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, part
        WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%'
        AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9) AND ps_suppkey NOT IN
        (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
        GROUP BY p_brand, p_type, p_size ORDER BY supplier_cnt DESC, p_brand, p_type, p_size""",
    "q17": """SELECT sum(l_extendedprice) / 7.0 FROM lineitem, part WHERE p_partkey = l_partkey AND p_brand = 'Brand#23'
        AND p_container = 'MED BOX' AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)""",
    "q18": """SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) FROM customer, orders, lineitem
        WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
        AND c_custkey = o_custkey AND o_orderkey = l_orderkey GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        ORDER BY o_totalprice DESC, o_orderdate, o_orderkey LIMIT 100""",
    "q19": """SELECT sum(l_extendedprice * (1 - l_discount)) FROM lineitem, part WHERE
        (p_partkey = l_partkey AND p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
        AND l_quantity >= 1 AND l_quantity <= 1 + 10 AND p_size BETWEEN 1 AND 5 AND l_shipmode IN ('AIR', 'AIR REG')
        AND l_shipinstruct = 'DELIVER IN PERSON')
        OR (p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
        AND l_quantity >= 10 AND l_quantity <= 10 + 10 AND p_size BETWEEN 1 AND 10 AND l_shipmode IN ('AIR', 'AIR REG')
        AND l_shipinstruct = 'DELIVER IN PERSON')
        OR (p_partkey = l_partkey AND p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
        AND l_quantity >= 20 AND l_quantity <= 20 + 10 AND p_size BETWEEN 1 AND 15 AND l_shipmode IN ('AIR', 'AIR REG')
        AND l_shipinstruct = 'DELIVER IN PERSON')""",
    "q20": """SELECT s_name, s_address FROM supplier, nation WHERE s_suppkey IN
        (SELECT ps_suppkey FROM partsupp WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
        AND ps_availqty > (SELECT 0.5 * sum(l_quantity) FROM lineitem WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
        AND l_shipdate >= date '1994-01-01' AND l_shipdate < date '1994-01-01' + interval '1' year))
        AND s_nationkey = n_nationkey AND n_name = 'CANADA' ORDER BY s_name""",
    "q21": """SELECT s_name, count(*) AS numwait FROM supplier, lineitem l1, orders, nation WHERE s_suppkey = l1.l_suppkey
        AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F' AND l1.l_receiptdate > l1.l_commitdate
        AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
        AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
        AND l3.l_receiptdate > l3.l_commitdate) AND s_nationkey = n_nationkey AND n_name = 'SAUDI ARABIA'
        GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100""",
    "q22": """SELECT cntrycode, count(*), sum(c_acctbal) FROM
        (SELECT substring(c_phone FROM 1 FOR 2) AS cntrycode, c_acctbal FROM customer
        WHERE substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17') AND c_acctbal >
        (SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0.00
        AND substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17'))
        AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale GROUP BY cntrycode ORDER BY cntrycode""",
}

WORK_MEM = "256MB"
POSTGRES_SETTINGS = {"autovacuum": "off", "shared_buffers": "1GB"}
ONE_THREAD = {"max_parallel_workers_per_gather": 0, "jit": "off"}


def timed(server, query):
    said = server.psql(f"SET work_mem = '{WORK_MEM}';\n\\timing on\n{query};\n")
    rows, time_ms = re.fullmatch(r"(?s)(.*)Time: ([0-9.]+) ms.*", said).groups()
    return rows.strip(), float(time_ms)


def rounded(rows):
    """Averages and quotients with as many digits as both servers are sure to give."""
    def value(text):
        is_number = re.fullmatch(r"-?[0-9]+\.[0-9]{5,}", text)
        return str(round(decimal.Decimal(text), 4)) if is_number else text
    return [[value(text) for text in line.split("|")] for line in rows.splitlines()]


def load(server, data):
    for name, columns in TABLES.items():
        server.psql(f"CREATE TABLE {name} ({columns});\n\\copy {name} FROM '{data / name}.csv' WITH (FORMAT csv, HEADER)\n")
    server.psql(INDEXES)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    servers.add_arguments(parser)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="queries, with commas between them", default=",".join(QUERIES))
    parser.add_argument("--one-thread", action="store_true", help="PostgreSQL without parallel workers and JIT")
    parser.add_argument("--generator", default="tpchgen-cli", help="the program that makes the data")
    args = parser.parse_args()
    servers.check_programs(parser, args)
    wanted = args.only.split(",")
    if args.rounds < 1 or args.scale <= 0 or not set(wanted) <= set(QUERIES):
        parser.error("--rounds is at least 1, --scale more than 0, and --only names queries q1 to q22")
    if not shutil.which(args.generator):
        parser.error(f"{args.generator} is not there: pip install tpchgen-cli, or give its path as --generator")
    settings = POSTGRES_SETTINGS | (ONE_THREAD if args.one_thread else {})
    with tempfile.TemporaryDirectory(prefix="tpch") as directory:
        path = pathlib.Path(directory)
        path.chmod(0o755)
        data = path / "data"
        subprocess.run([args.generator, "csv", "-s", str(args.scale), f"--output-dir={data}"], check=True)
        both = [servers.Colibri(args.colibri, path),
                servers.Postgres(args.pg_bin, path, settings, ["-E", "UTF8", "--locale=C.UTF-8"])]
        with servers.started(both):
            for server in both:
                load(server, data)
            compare(both, wanted, args)


def compare(both, wanted, args):
    print(f"scale {args.scale:g}, medians of {args.rounds} rounds, ms\n")
    print("| query | PostgreSQL | Colibri | times |\n| --- | ---: | ---: | ---: |")
    totals = [0.0, 0.0]
    for name in wanted:
        times_ms, rows = {}, {}
        for server in servers.in_turn(both, args.rounds):
            rows[server.name], time_ms = timed(server, QUERIES[name])
            times_ms.setdefault(server.name, []).append(time_ms)
        first, second = (rounded(rows[server.name]) for server in both)
        if first != second:
            sys.exit(f"{name} gives different rows: {rows}")
        theirs, ours = (statistics.median(times_ms[server]) for server in ("PostgreSQL", "Colibri"))
        totals = [totals[0] + theirs, totals[1] + ours]
        print(f"| {name} | {theirs:.1f} | {ours:.1f} | {ours / theirs:.2f} |", flush=True)
    print(f"| all | {totals[0]:.0f} | {totals[1]:.0f} | {totals[1] / totals[0]:.2f} |")


if __name__ == "__main__":
    main()
