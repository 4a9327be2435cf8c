//! `colibri bench`: the benchmarks, each a command of its own.

use clap::{Args, Subcommand};
use colibri_bench::engine::{self, KvArgs};
use colibri_bench::experiments::freespace::{self, FreespaceArgs};
use colibri_bench::experiments::idle::{self, IdleArgs};
use colibri_bench::experiments::lifo::{self, LifoArgs};
use colibri_bench::experiments::threads::{self, ThreadsArgs};
use colibri_bench::results::compare::{self, CompareArgs};
use colibri_bench::results::history::{self, HistoryArgs};
use colibri_bench::results::matrix::{self, MatrixArgs};
use colibri_bench::results::merge::{self, MergeArgs};
use colibri_bench::sql::analytics::{self, ClickBenchArgs, TpchArgs};
use colibri_bench::sql::ch::{self, ChArgs};
use colibri_bench::sql::shapes::{self, ShapesArgs};
use colibri_bench::sql::{self, QueueArgs, ScriptArgs, StockArgs, TpccArgs, YcsbArgs};

use crate::bench_cluster::ClusterArgs;
use crate::failure::{Failure, Result};
use crate::version;

/// Measure Colibri beside its rivals
///
/// Results are a table on standard output and, with --json, a file.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  colibri bench tpcc\n  colibri bench kv --n 100000 --modes lazy,sync --rounds 3 --json results.json"
)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    #[command(after_help = "Examples:\n  colibri bench tpcc --warehouses 1 --no-wait --duration 10s\n  \
                            colibri bench tpcc --miniature --no-wait --duration 5s --html tpcc.html\n  \
                            colibri bench tpcc --warehouses 10 --target postgres://postgres@localhost/bench --server-pid 4711\n  \
                            colibri bench tpcc load --dir data --warehouses 10 && colibri bench tpcc run --dir data --warehouses 10")]
    Tpcc(TpccArgs),
    #[command(after_help = "Examples:\n  colibri bench ycsb --workload a --records 100000 --duration 10s\n  \
                            colibri bench ycsb --workload a --target sqlite\n  \
                            colibri bench ycsb --workload e --distribution uniform --target postgres://postgres@localhost/bench")]
    Ycsb(YcsbArgs),
    #[command(after_help = "Examples:\n  colibri bench stock --workload put-rand-order --duration 10s\n  \
                            colibri bench stock --find-max --p99 25ms --rounds 5")]
    Stock(StockArgs),
    #[command(after_help = "Examples:\n  colibri bench queue --clients 8 --duration 10s\n  \
                            colibri bench queue --part messages --clients 8 --duration 10s\n  \
                            colibri bench queue --part messages --pattern table \\\n    \
                            --target postgres://postgres@localhost/bench --server-pid 4711")]
    Queue(QueueArgs),
    #[command(after_help = "Example:\n  \
                            echo 'CREATE TABLE accounts (id int PRIMARY KEY, cents int);\n  \
                            INSERT INTO accounts SELECT n, 0 FROM generate_series(1, 1000) AS s (n);' > accounts.sql\n  \
                            printf '%s\\n' '\\set id random(1, 1000)' \\\n    \
                            'UPDATE accounts SET cents = cents + 1 WHERE id = :id' > payment.sql\n  \
                            colibri bench script --setup accounts.sql --file payment.sql --clients 8")]
    Script(ScriptArgs),
    #[command(after_help = "Examples:\n  colibri bench shapes --select django\n  \
                            colibri bench shapes --target postgres://postgres@localhost:5433/postgres \\\n    \
                            --beside postgres://postgres@localhost:5432/postgres --max-ratio 1.2")]
    Shapes(ShapesArgs),
    #[command(after_help = "Examples:\n  colibri bench ch --warehouses 1 --clients 16 --duration 10s\n  \
                            colibri bench ch --warehouses 10 --clients 16 --analysts 1 --html ch.html \\\n    \
                            --target postgres://postgres@localhost/bench --server-pid 4711")]
    Ch(ChArgs),
    #[command(after_help = "Examples:\n  colibri bench tpch --scale 0.01 --beside duckdb\n  \
                            colibri bench tpch --scale 0.1 --fresh 10% --streams 4 --html tpch.html \\\n    \
                            --target postgres://postgres@localhost:5433/postgres \\\n    \
                            --beside postgres://postgres@localhost:5432/postgres --set work_mem=256MB")]
    Tpch(TpchArgs),
    #[command(after_help = "Example:\n  colibri bench clickbench --rows 1000000 --beside duckdb --beside sqlite")]
    Clickbench(ClickBenchArgs),
    #[command(after_help = "Examples:\n  colibri bench kv --n 100000 --modes lazy,sync --json results.json\n  \
                            colibri bench kv --targets colibri,null --workloads get,crud --readers 1 --writers 1\n  \
                            colibri bench kv --targets colibri,flush --modes sync --workloads crud --load 0.5\n\n\
                            Rivals need a build with --features rivals (or rivals-rocksdb).")]
    Kv(KvArgs),
    #[command(after_help = "Example:\n  colibri bench freespace --rounds 3 --results freespace-results\n\n\
                      With random keys the control group's file takes about 7 GB at the default size.")]
    Freespace(FreespaceArgs),
    #[command(after_help = "Examples:\n  colibri bench lifo --records 42,1764\n  \
                            colibri bench lifo --json lifo.json --svg lifo.svg")]
    Lifo(LifoArgs),
    #[command(after_help = "Examples:\n  colibri bench idle --seconds 10 --pid 1234 --json idle.json\n  \
                            colibri bench idle --settle 60 -- redis-server --port 7777\n  \
                            colibri bench idle --command 'exec postgres -D data' --command 'redis-server --port 7777'")]
    Idle(IdleArgs),
    #[command(after_help = "Examples:\n  colibri bench threads --part simulate\n  \
                            colibri bench threads --part pipeline,find-max --threads 2 --json threads.json\n\n\
                            tokio beside it needs a build with --features rivals.")]
    Threads(ThreadsArgs),
    #[command(after_help = "Example:\n  colibri bench compare before.json after.json --threshold 5")]
    Compare(CompareArgs),
    #[command(after_help = "Example:\n  colibri bench history results --html history.html")]
    History(HistoryArgs),
    #[command(
        after_help = "Examples:\n  colibri bench matrix docs/benchmarks/oltp.toml --json results.json --html results.html\n  \
                            colibri bench matrix docs/benchmarks/oltp.toml --time-scale 0.1 --rounds 1 --select YCSB"
    )]
    Matrix(MatrixArgs),
    #[command(after_help = "Example:\n  colibri bench merge shard-0.json shard-1.json --json all.json")]
    Merge(MergeArgs),
    #[command(after_help = "Example:\n  colibri bench cluster --duration 10s --miniature --json cluster.json")]
    Cluster(ClusterArgs),
}

pub(crate) fn run(args: BenchArgs) -> Result<()> {
    if let Some(build) = version::BUILD.as_deref() {
        colibri_bench::name_commit(build);
    }
    run_one(args.bench)?;
    colibri_bench::output_failure().map_or(Ok(()), |error| Err(Failure::Output(error)))
}

fn run_one(bench: Bench) -> Result<()> {
    match bench {
        Bench::Tpcc(args) => Ok(sql::tpcc(&args)?),
        Bench::Ycsb(args) => Ok(sql::ycsb(&args)?),
        Bench::Script(args) => Ok(sql::script(&args)?),
        Bench::Stock(args) => Ok(sql::stock(&args)?),
        Bench::Queue(args) => Ok(sql::queue(&args)?),
        Bench::Shapes(args) => Ok(shapes::run(&args)?),
        Bench::Ch(args) => Ok(ch::ch(&args)?),
        Bench::Clickbench(args) => Ok(analytics::clickbench(&args)?),
        Bench::Tpch(args) => Ok(analytics::tpch(&args)?),
        Bench::Kv(args) => Ok(engine::run(args)?),
        Bench::Freespace(args) => Ok(freespace::run(&args)?),
        Bench::Lifo(args) => Ok(lifo::run(&args)?),
        Bench::Idle(args) => Ok(idle::run(&args)?),
        Bench::Compare(args) => Ok(compare::run(&args)?),
        Bench::History(args) => Ok(history::run(&args)?),
        Bench::Matrix(args) => Ok(matrix::run(&args)?),
        Bench::Merge(args) => Ok(merge::run(&args)?),
        Bench::Threads(args) => Ok(threads::run(&args)?),
        Bench::Cluster(args) => crate::bench_cluster::run(&args),
    }
}
