//! `colibri cluster`: servers that have copies of the same databases, as etcd and they tell of them.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use colibri_server::{
    ClusterStatus, DatabaseStatus, cluster_status, cluster_status_of_node, move_database, remove_node,
};

use crate::failure::{Failure, Result};

/// Look at a cluster of servers, and choose who leads
///
/// The servers of a cluster are started with `colibri serve --cluster`. These commands need etcd to
/// be reachable, and ask the servers themselves what etcd does not know. Without etcd, `status --dir`
/// tells what the servers know.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  colibri cluster status --cluster etcd://h1:2379,h2:2379,h3:2379/birds\n  \
                        colibri cluster move postgres n2 --cluster etcd://h1:2379/birds\n  \
                        colibri cluster remove n3 --cluster etcd://h1:2379/birds")]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    command: Command,
    /// Where the cluster is
    #[arg(long, value_name = "etcd://HOST:PORT,…/NAME", global = true)]
    cluster: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Nodes, databases, who leads them, and how far copies are behind
    #[command(after_help = "Examples:\n  colibri cluster status --cluster etcd://h1:2379,h2:2379,h3:2379/birds\n  \
                            colibri cluster status --cluster etcd://h1:2379/birds --dir /var/lib/colibri")]
    Status {
        /// Directory of a server of the cluster on this machine, which tells what it knows if etcd
        /// does not answer
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Have a node lead a database, now and whenever it is there
    #[command(after_help = "Example:\n  colibri cluster move postgres n2 --cluster etcd://h1:2379/birds")]
    Move {
        /// The database
        database: String,
        /// The node
        node: String,
    },
    /// Forget a node that does not come back
    #[command(after_help = "Example:\n  colibri cluster remove n3 --cluster etcd://h1:2379/birds")]
    Remove {
        /// The node
        node: String,
    },
    /// The logs of the databases: what is kept of them, and for whom
    #[command(after_help = "Example:\n  colibri cluster log --cluster etcd://h1:2379/birds")]
    Log,
}

/// How long a database may take to move.
const MOVE_MAX: Duration = Duration::from_secs(30);

pub(crate) fn run(args: ClusterArgs) -> Result<()> {
    let address = || args.cluster.clone().ok_or(Failure::NoCluster);
    match args.command {
        Command::Status { json, dir } => {
            let status = match (args.cluster.as_deref().map(cluster_status), dir) {
                (None, None) => return Err(Failure::NoCluster),
                (Some(Ok(status)), _) => status,
                (Some(Err(error)), None) => return Err(error.into()),
                (Some(Err(error)), Some(dir)) => cluster_status_of_node(&dir, &error.to_string())?,
                (None, Some(dir)) => cluster_status_of_node(&dir, "it was not asked, since there is no --cluster")?,
            };
            let text = if json { in_json(&status) } else { status_text(&status) };
            print(&text)
        }
        Command::Log => print(&log_text(&cluster_status(&address()?)?)),
        Command::Move { database, node } => {
            move_database(&address()?, &database, &node, MOVE_MAX)?;
            print(&format!("{node} leads {database} now\n"))
        }
        Command::Remove { node } => {
            remove_node(&address()?, &node)?;
            print(&format!("{node} is forgotten\n"))
        }
    }
}

fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
}

fn in_json(status: &ClusterStatus) -> String {
    let json = serde_json::to_string_pretty(status).expect("names and numbers are JSON");
    json + "\n"
}

/// All columns of these tables are words.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let mut text = Vec::new();
    crate::columns::print(rows, N, &mut text).expect("memory takes what is written");
    let text = String::from_utf8_lossy(&text);
    text.lines().map(|line| format!("{}\n", line.trim_ascii_end())).collect()
}

fn head<const N: usize>(cells: [&str; N]) -> [String; N] {
    cells.map(str::to_owned)
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn status_text(status: &ClusterStatus) -> String {
    let mut text = format!("cluster {}\n", status.name);
    if let Some(etcd) = &status.etcd {
        let line = format!(
            "etcd {}, {} of {} members up, {} of {} bytes ({})\n",
            etcd.version, etcd.members_up, etcd.members, etcd.bytes, etcd.quota_bytes, etcd.level
        );
        text.push_str(&line);
        if etcd.alarm {
            text.push_str("etcd has reached its quota. It writes nothing before its alarm is taken back: compact and defragment it, then `etcdctl alarm disarm`.\n");
        }
        text.push('\n');
    }
    if let Some(trouble) = &status.trouble {
        let line = format!("etcd cannot be asked: {trouble}\nWhat follows is what servers know.\n\n");
        text.push_str(&line);
    }
    let mut nodes = vec![head(["node", "address", "leads", ""])];
    nodes.extend(status.nodes.iter().map(|node| {
        let trouble = node.trouble.clone().unwrap_or_default();
        [node.id.clone(), node.address.clone(), node.leads.to_string(), trouble]
    }));
    text.push_str(&table(&nodes));
    text.push('\n');
    let mut databases = vec![head([
        "database", "number", "node", "is", "epoch", "agreed", "applied", "on disk", "behind", "bytes", "time", "",
    ])];
    for database in &status.databases {
        databases.extend(copies(database));
    }
    text + &table(&databases)
}

fn copies(database: &DatabaseStatus) -> Vec<[String; 12]> {
    let mut rows: Vec<_> = database
        .copies
        .iter()
        .map(|copy| {
            let leads = database.leader.as_ref() == Some(&copy.node);
            let is = match (leads, copy.standing.as_str()) {
                (true, "closed") => "leader, closed".to_owned(),
                (true, "leader") => "leader".to_owned(),
                (true, other) => format!("leader, {other}"),
                (false, other) => other.to_owned(),
            };
            [
                database.name.clone(),
                database.oid.to_string(),
                copy.node.clone(),
                is,
                or_dash(database.epoch.filter(|_| leads)),
                or_dash(database.end),
                or_dash(copy.applied),
                or_dash(copy.on_disk),
                or_dash(copy.behind),
                or_dash(copy.behind_bytes),
                or_dash(copy.behind_s.map(|seconds| format!("{seconds:.1} s"))),
                copy.trouble.clone().unwrap_or_default(),
            ]
        })
        .collect();
    if database.leader.is_none() {
        let mut row = head(["", "", "-", "nobody leads", "", "", "", "", "", "", "", ""]);
        (row[0], row[1], row[5]) = (database.name.clone(), database.oid.to_string(), or_dash(database.end));
        rows.push(row);
    }
    rows
}

fn log_text(status: &ClusterStatus) -> String {
    let mut rows = vec![head(["database", "number", "first", "end", "bytes", "held on disk by"])];
    rows.extend(status.databases.iter().map(|database| {
        let held = database.copies.iter().filter_map(|copy| Some(format!("{} to {}", copy.node, copy.on_disk?)));
        [
            database.name.clone(),
            database.oid.to_string(),
            or_dash(database.first),
            or_dash(database.end),
            or_dash(database.log_bytes),
            held.collect::<Vec<_>>().join(", "),
        ]
    }));
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_as_wide_as_their_widest_cells() {
        let rows = [head(["a", "bb", ""]), head(["long", "b", "x"])];
        assert_eq!(table(&rows), "a    bb\nlong b  x\n");
    }
}
