#!/usr/bin/env python3
"""Results of `colibri bench matrix` and of `scripts/foreign_tools.py` as tables for docs/BENCHMARKS.md and as the README's chart.

    scripts/benchmark_tables.py table oltp.json
    scripts/benchmark_tables.py limit limit.json [another-round.json…]
    scripts/benchmark_tables.py foreign foreign.json [another.json…]
    scripts/benchmark_tables.py chart oltp.json in-process.json > docs/benchmarks/oltp.svg
"""

import json
import statistics
import sys


def read(path):
    """The runs of a file, if all of them are valid."""
    try:
        runs = json.load(open(path))
    except (OSError, ValueError) as error:
        sys.exit(f"{path} is not what `colibri bench matrix --json` writes: {error}")
    for run in runs:
        if not run["valid"]:
            sys.exit(f"{path}: {run['workload_about']} on {run['target']} is not valid, so there is no table: {'; '.join(run['reasons'])}")
    return runs


def medians(path):
    """By workload and target: the median of each figure over the rounds."""
    runs = {}
    for run in read(path):
        name = run["workload_about"]
        runs.setdefault(name, {}).setdefault(run["target"], []).append(run)
    all_of = lambda rows, of: statistics.median(of(row) for row in rows)
    return {
        name: {
            target: {
                "rate": all_of(rows, lambda row: row["throughput_per_s"]),
                "p99": all_of(rows, lambda row: row["scheduled_us"]["p99"] / 1000),
                "cpu": all_of(rows, lambda row: row["cost"]["cpu_us_per_txn"]),
                "generator": all_of(rows, lambda row: row["cost"]["generator_cpu_us_per_txn"]),
                "written": all_of(rows, lambda row: row["cost"]["written_bytes_per_txn"]),
            }
            for target, rows in targets.items()
        }
        for name, targets in runs.items()
    }


def table(path):
    workloads = medians(path)
    print("| workload | target | transactions/s | Colibri is | p99, ms | CPU of the target, µs | of the generator, µs | bytes written |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, targets in workloads.items():
        for target, of in targets.items():
            colibri = targets.get("colibri")
            times = f"{colibri['rate'] / of['rate']:.2f} ×" if colibri and target != "colibri" else ""
            print(f"| {name} | {target} | {of['rate']:,.0f} | {times} | {of['p99']:.2f} | {of['cpu']:.1f} | "
                  f"{of['generator']:.1f} | {of['written']:,.0f} |")


def limit(paths):
    """Of `--find-max`, over all runs held out. A server with fewer CPUs is beside Colibri's with as many."""
    rounds = {}
    for run in (run for path in paths for run in read(path)):
        rounds.setdefault((run["workload_about"], run["target"]), []).append(run)
    held_out = {key: [probe for run in runs for probe in run["find_max"]["probes"]
                      if probe["held_out"] and probe["knob"] == run["find_max"]["found"]] for key, runs in rounds.items()}
    found = {key: statistics.median(probe["throughput_per_s"] for probe in probes) for key, probes in held_out.items()}
    print("| workload | target | under way | transactions/s | Colibri is | p99 of the runs, ms | CPU of the target, µs |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for (name, target), runs in rounds.items():
        _, comma, cpus = target.partition(", ")
        colibri = found.get((name, f"colibri{comma}{cpus}")) or found.get((name, "colibri"))
        rate = found[name, target]
        times = f"{colibri / rate:.2f} ×" if colibri and not target.startswith("colibri") else ""
        rates = [probe["throughput_per_s"] for probe in held_out[name, target]]
        p99s = [probe["p99_us"] / 1000 for probe in held_out[name, target]]
        under_way = ", ".join(f"{run['find_max']['found']:.0f}" for run in runs)
        cpu = ", ".join(f"{run['cost']['cpu_us_per_txn']:.0f}" for run in runs)
        print(f"| {name} | {target} | {under_way} | {rate:,.0f} ({min(rates):,.0f} to {max(rates):,.0f}) | {times} "
              f"| {min(p99s):.1f} to {max(p99s):.1f} | {cpu} |")


def foreign_medians(result):
    """By server, the medians of a line's runs; of a server on which a run failed there is none."""
    return {server: {figure: statistics.median(run[figure] for run in runs if run[figure] is not None)
                     for figure in runs[0] if runs[0][figure] is not None}
            for server, runs in result["runs"].items() if runs and server not in result["failures"]}


def foreign_ratio(result):
    """How many times as fast as PostgreSQL Colibri is, where both have run."""
    of = foreign_medians(result)
    if len(of) < 2:
        return None
    ours, theirs = of["Colibri"], of["PostgreSQL"]
    if "seconds" in ours:
        return theirs["seconds"] / max(ours["seconds"], 1e-9)
    return ours["rate"] / max(theirs["rate"], 1e-9)


def foreign_head(about):
    return (f"{about['colibri']}, {about['postgresql']}; {about['machine']}; `{about['command']}`. {about['repeat']} runs of "
            f"{about['time_s']} s of each line on each server in turn, medians; both at {about['isolation'].upper()}, every commit on disk.\n\n"
            "| client | Colibri, a second | PostgreSQL, a second | Colibri is | p95, ms | p99, ms | server's CPU, µs |\n"
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |")


def foreign_row(result):
    """Of servers that failed it says so; lines of work to be done once give its time, and the CPU of all of it."""
    of, ratio = foreign_medians(result), foreign_ratio(result)
    both = [of.get(server) for server in ("Colibri", "PostgreSQL")]

    def pair(figure, form):
        shown = [form(server[figure]) for server in both if server and figure in server]
        return " and ".join(shown)

    def main(server):
        if server is None:
            return "failed"
        if "seconds" in server:
            return f"{server['seconds']:.2f} s"
        errors = f" ({server['errors']:,.0f} errors)" if server["errors"] else ""
        return f"{server['rate']:,.0f}{' a minute' if 'minute' in result['unit'] else ''}{errors}"

    cpu = (lambda us: f"{us / 1e6:.2f} s") if any(server and "seconds" in server for server in both) else (lambda us: f"{us:,.1f}")
    ms = lambda ms: f"{ms:,.2f}"
    times = f"{ratio:.2f} ×" if ratio is not None else ""
    return (f"| {result['line']} | {main(both[0])} | {main(both[1])} | {times} | {pair('p95_ms', ms)} | {pair('p99_ms', ms)} | "
            f"{pair('cpu_us', cpu)} |")


def foreign(paths):
    """Files of runs with the same settings make one table."""
    for number, path in enumerate(paths):
        try:
            of = json.load(open(path))
            rows = [foreign_row(result) for result in of["lines"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.exit(f"{path} is not what scripts/foreign_tools.py --json writes: {error}")
        if number == 0:
            print(foreign_head(of["about"]))
        print("\n".join(rows))


def chart(paths):
    bars = []
    for path in paths:
        for name, targets in medians(path).items():
            # PostgreSQL at its default isolation, which is its fastest.
            rivals = [target for target in targets if target in ("postgresql", "sqlite")]
            for rival in rivals:
                bars.append((f"{name}, beside {'PostgreSQL' if rival == 'postgresql' else 'SQLite'}",
                             targets["colibri"]["rate"] / targets[rival]["rate"]))
    if not bars:
        sys.exit(f"{', '.join(paths)}: no target beside colibri: run the matrix with its rivals")
    left, row, unit = 330, 22, 45
    width, height = left + int(max(times for _, times in bars) * unit) + 70, 60 + row * len(bars)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">')
    print(f'<rect width="{width}" height="{height}" fill="#fff"/>')
    print('<text x="10" y="22" font-size="15">Transactions a second, Colibri\'s over the rival\'s; every commit on disk</text>')
    for number, (name, times) in enumerate(bars):
        y = 40 + number * row
        print(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{name}</text>')
        print(f'<rect x="{left}" y="{y + 2}" width="{times * unit:.0f}" height="{row - 6}" fill="#2a7f62"/>')
        print(f'<text x="{left + times * unit + 6:.0f}" y="{y + 14}">{times:.2f} ×</text>')
    print(f'<line x1="{left + unit}" y1="36" x2="{left + unit}" y2="{40 + row * len(bars)}" stroke="#c33" stroke-dasharray="4"/>')
    print("</svg>")


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("table", "limit", "foreign", "chart"):
        sys.exit(__doc__)
    table(sys.argv[2]) if sys.argv[1] == "table" else {"limit": limit, "foreign": foreign, "chart": chart}[sys.argv[1]](sys.argv[2:])
