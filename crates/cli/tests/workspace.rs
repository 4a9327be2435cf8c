//! The tree as a whole: which crate may know which, why each dependency is there, where `unsafe`
//! may be.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arrows point one way: each crate, and the only ones of this workspace that it may depend on.
const GRAPH: [(&str, &[&str]); 17] = [
    ("colibri-storage", &[]),
    ("colibri-runtime", &[]),
    ("colibri-txn", &["colibri-storage"]),
    ("colibri-capi", &["colibri-db", "colibri-storage"]),
    ("colibri-python", &["colibri-db"]),
    ("colibri-node", &["colibri-db"]),
    ("colibri-replica", &["colibri-storage"]),
    ("colibri-types", &[]),
    ("colibri-syntax", &["colibri-types"]),
    ("colibri-catalog", &["colibri-storage", "colibri-txn", "colibri-types"]),
    ("colibri-plan", &["colibri-catalog", "colibri-syntax", "colibri-txn", "colibri-types"]),
    ("colibri-exec", &["colibri-catalog", "colibri-plan", "colibri-txn", "colibri-types"]),
    (
        "colibri-sql",
        &[
            "colibri-catalog",
            "colibri-exec",
            "colibri-plan",
            "colibri-storage",
            "colibri-syntax",
            "colibri-txn",
            "colibri-types",
        ],
    ),
    ("colibri-server", &["colibri-replica", "colibri-runtime", "colibri-sql", "colibri-storage", "colibri-txn"]),
    ("colibri-db", &["colibri-sql", "colibri-storage", "colibri-txn"]),
    ("colibri-bench", &["colibri-db", "colibri-runtime", "colibri-txn"]),
    ("colibri-cli", &["colibri-bench", "colibri-db", "colibri-runtime", "colibri-server"]),
];

/// What the benchmark measures Colibri beside: C, C++, or large, and so never in the way of a build
/// that does not ask for it.
const RIVALS: [&str; 6] = ["lmdb-master-sys", "signet-mdbx-sys", "redb", "rusqlite", "rocksdb", "tokio"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn packages() -> Vec<serde_json::Value> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]).current_dir(root());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Dependencies of the library or binary itself: not those of its tests.
fn dependencies(package: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
    package["dependencies"].as_array().unwrap().iter().filter(|dependency| dependency["kind"].is_null())
}

#[test]
fn crates_know_only_those_below_them() {
    let packages = packages();
    let names: BTreeSet<_> = packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    assert_eq!(names, GRAPH.iter().map(|(name, _)| *name).collect(), "the graph above has all crates");
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        let found: BTreeSet<_> = dependencies(package)
            .filter_map(|dependency| dependency["name"].as_str())
            .filter(|name| names.contains(name))
            .collect();
        let (_, expected) = GRAPH.iter().find(|(known, _)| *known == name).unwrap();
        assert_eq!(found, expected.iter().copied().collect(), "{name} depends on other crates than it may");
    }
}

#[test]
fn the_map_draws_that_graph() {
    let map = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    // ` colibri-txn   serializable transactions   storage`
    let lines = map.lines().filter(|line| line.starts_with(" colibri-"));
    let mut drawn: Vec<(String, BTreeSet<String>)> = lines
        .map(|line| {
            let known = line.rsplit("  ").next().unwrap().split(", ").filter(|known| *known != "-");
            let name = line.split_whitespace().next().unwrap();
            (name.to_owned(), known.map(|known| format!("colibri-{known}")).collect())
        })
        .collect();
    drawn.sort();
    let mut expected =
        GRAPH.map(|(name, known)| (name.to_owned(), known.iter().map(|&known| known.to_owned()).collect()));
    expected.sort();
    assert_eq!(drawn, expected, "the list at the top of docs/ARCHITECTURE.md");
}

#[test]
fn rivals_are_never_part_of_a_build_that_does_not_ask_for_them() {
    for package in packages() {
        for dependency in dependencies(&package) {
            let name = dependency["name"].as_str().unwrap();
            if RIVALS.contains(&name) {
                // gRPC runs on tokio: in one thread of its own, in a cluster only.
                if name == "tokio" && package["name"] == "colibri-replica" {
                    continue;
                }
                assert_eq!(package["name"], "colibri-bench", "{name} is for the benchmark only");
                assert_eq!(dependency["optional"], true, "{name} has to be behind a feature");
            }
        }
        let default = &package["features"]["default"];
        assert!(default.is_null(), "{}: features are asked for, none is on by default: {default}", package["name"]);
    }
}

#[test]
fn every_dependency_has_its_reason_beside_it() {
    for package in packages() {
        let path = package["manifest_path"].as_str().unwrap();
        let text = fs::read_to_string(path).unwrap();
        let (mut in_dependencies, mut has_reason) = (false, false);
        for line in text.lines() {
            match line.chars().next() {
                Some('[') => (in_dependencies, has_reason) = (line.contains("dependencies]"), false),
                Some('#') => has_reason = true,
                None => has_reason = false,
                // A crate of this workspace is its own reason.
                Some(_) if in_dependencies && !line.starts_with("colibri-") => {
                    assert!(has_reason, "{path}: {line:?} has no sentence that says why");
                }
                Some(_) => {}
            }
        }
    }
}

#[test]
fn unsafe_code_is_only_where_the_map_says() {
    let map = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let (_, section) = map.split_once("## Where `unsafe` lives").unwrap();
    let section = section.split("\n## ").next().unwrap();
    // | `storage/src/disk.rs` | why |
    let listed: BTreeSet<_> =
        section.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned())).collect();
    let crates = root().join("crates");
    let mut found = BTreeSet::new();
    for path in files_below(&crates, "rs") {
        let text = fs::read_to_string(&path).unwrap();
        if text.lines().any(|line| {
            line.starts_with("#![allow(unsafe_code") || line.trim_start().starts_with("#[allow(unsafe_code")
        }) {
            found.insert(path.strip_prefix(&crates).unwrap().display().to_string());
        }
    }
    assert_eq!(found, listed, "modules that allow unsafe code, and those that docs/ARCHITECTURE.md lists");
}

fn files_below(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path, extension)),
            false if path.extension().is_some_and(|found| found == extension) => files.push(path),
            false => {}
        }
    }
    files
}

/// Circles of modules that may stay, by crate or folder of one, each with what ties it together.
const CIRCLES: [(&str, &[&[&str]]); 12] = [
    (
        "types",
        &[
            // An array is a value made of values: what is read, written, cast or compared may hold
            // the like of itself. Long values are copied to be read. Strings of bits are read from
            // texts, and a cast cuts them. A range holds its bounds as keys do. Shapes have numbers as texts have them. Pairs of
            // texts (`hstore`) are read from texts, and made of values; so are paths (`ltree`) and
            // lists of reals (`vector`).
            &[
                "array",
                "binary_io",
                "bits",
                "cast",
                "composite_values",
                "copies",
                "geometry",
                "hstore",
                "key",
                "ltree",
                "operators",
                "ranges",
                "row",
                "text_io",
                "value",
                "vector",
            ],
            // Times are read in a session's zone, and intervals are added to them. A composite type has
            // fields with types, and a range type has one of bounds.
            &["composites", "datetime", "env", "interval", "range_types", "types"],
        ],
    ),
    ("syntax", &[]),
    ("catalog", &[]),
    (
        "storage",
        &[
            // An open database (`db::Core`) is one type, and each of these files has a part of its
            // methods; snapshots, transactions, tickets and branches are what it gives out, and refer
            // to it.
            &[
                "branch", "compact", "db", "flusher", "past", "reap", "reclaim", "recovery", "snapshot", "steady",
                "ticket", "txn",
            ],
        ],
    ),
    (
        "runtime",
        &[
            // What threads share has the lanes of tasks, and a task that is woken puts itself
            // there, or on the thread that wakes it.
            &["blocking", "give_way", "lanes", "ping", "shared", "stand_in", "task", "worker"],
        ],
    ),
    (
        "txn",
        &[
            // What transactions share has the queue of commits, and who leads the queue commits
            // what transactions have gathered. A prepared transaction is one that the queue keeps.
            &["apply", "local", "opened", "prepared", "queue", "transaction"],
            // The interface: what comes in the place of an error names what to wait for, and every
            // call may return one. What a fork has read is handed over, and names keys.
            &["commit", "error", "locks", "outcome", "reads", "store", "ticket"],
        ],
    ),
    ("replica", &[]),
    ("bench", &[]),
    (
        "bench/sql",
        &[
            // A target that imitates a database asks the workload for its answers.
            &["target", "workload"],
        ],
    ),
    (
        "plan",
        &[
            // Binding asks the planner's trait for the sizes of tables, and binds what is stored
            // of a table for the planner's rules.
            &["bind", "planner"],
            // An expression has the query inside it, as it was bound and then as it is run.
            &["expr", "logical", "plan"],
        ],
    ),
    (
        "exec",
        &[
            // A row that is written obeys constraints, and an action of a foreign key writes rows.
            // Triggers fire for these, and one that is put off is a check like others.
            &["constraints", "delete", "triggers", "update", "writing"],
            // What is divided has jobs, and each job is such a grouping or sort.
            &["aggregate", "parallel", "sort"],
            // An expression may have a query inside, which operators run, and these evaluate
            // expressions. What a domain demands of a value are expressions, too.
            &["domains", "eval", "keyed", "operator", "subquery"],
        ],
    ),
    (
        "sql",
        &[
            // Sessions run statements that change the catalogue, and what the catalogue tells of
            // sessions is read by statements.
            &["admin", "ddl", "registry", "session", "surroundings", "system"],
        ],
    ),
];

/// The modules at the top of a crate (`bench`), or of a folder of one (`bench/sql`), and which
/// others of them each one names. Tests do not count.
fn module_graph(place: &str) -> BTreeMap<String, BTreeSet<String>> {
    let (krate, folder) = place.split_once('/').unwrap_or((place, ""));
    let src = root().join("crates").join(krate).join("src").join(folder);
    let prefix = if folder.is_empty() { "crate::".to_owned() } else { format!("crate::{folder}::") };
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files_below(&src, "rs") {
        let inside = path.strip_prefix(&src).unwrap();
        let top = inside.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if top == "lib" || name == "tests" || name.ends_with("_tests") || name == "test_bed" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap().split("#[cfg(all(test").next().unwrap();
        let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap()).collect();
        let named = graph.entry(top.clone()).or_default();
        // `super::` as often as leads out of the module at the top.
        let depth = inside.components().count() - usize::from(name == "mod");
        let up = "super::".repeat(depth);
        let code = code.join("\n");
        let by_super = code.match_indices(&up).filter_map(|(at, _)| {
            let (before, behind) = (&code[..at], &code[at + up.len()..]);
            (!before.ends_with("super::") && !behind.starts_with("super::")).then_some(behind)
        });
        for found in code.split(&prefix).skip(1).chain(by_super) {
            // `crate::{a::X, b}` names several, `crate::a::X` one.
            let list = match found.strip_prefix('{') {
                Some(list) => list.split(';').next().unwrap(),
                None => found,
            };
            let mut depth = 0;
            let outermost: String = list
                .chars()
                .filter(|&sign| {
                    depth += i32::from(sign == '{') - i32::from(sign == '}');
                    depth == 0
                })
                .collect();
            let count = if found.starts_with('{') { usize::MAX } else { 1 };
            for part in outermost.split(',').take(count) {
                let module: String =
                    part.trim().chars().take_while(|sign| sign.is_alphanumeric() || *sign == '_').collect();
                if module != top {
                    named.insert(module);
                }
            }
        }
    }
    let known: BTreeSet<String> = graph.keys().cloned().collect();
    graph.values_mut().for_each(|named| named.retain(|module| known.contains(module)));
    graph
}

/// All that can be reached from a module.
fn reached(graph: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = next.pop() {
        next.extend(graph[&module].iter().filter(|other| found.insert((*other).clone())).cloned());
    }
    found
}

#[test]
fn modules_stand_in_no_circles_but_those_that_are_named() {
    let mut wrong = Vec::new();
    for (krate, allowed) in CIRCLES {
        let graph = module_graph(krate);
        assert!(graph.values().map(BTreeSet::len).sum::<usize>() > 0, "{krate}: no module names another one");
        let mut circles = BTreeSet::new();
        for module in graph.keys() {
            let back = |other: &String| reached(&graph, other).contains(module);
            let circle: Vec<String> = reached(&graph, module).into_iter().filter(back).collect();
            if !circle.is_empty() {
                circles.insert(circle);
            }
        }
        let allowed: BTreeSet<Vec<String>> =
            allowed.iter().map(|circle| circle.iter().map(|&module| module.to_owned()).collect()).collect();
        if circles != allowed {
            wrong.push(format!("{krate}: modules that know each other in a circle: {circles:?}, and not {allowed:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
