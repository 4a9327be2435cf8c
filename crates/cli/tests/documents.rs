//! What can be checked of the documents by machine: links lead somewhere, files that are named
//! exist, and so do the tests that they tell people to run. That commands and flags in them exist
//! is checked beside the command line's definition.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All documents for people, with their texts.
fn documents() -> Vec<(PathBuf, String)> {
    let mut paths = Vec::new();
    for dir in ["", "docs", "docs/design", "fuzz", "packaging"] {
        for entry in fs::read_dir(root().join(dir)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    assert!(paths.len() > 15, "documents are not found any more: {paths:?}");
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// Lines outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// Targets of `[text](target)`.
fn links(line: &str) -> Vec<&str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

/// What a heading can be linked by.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| -> String {
        let kept = heading.to_lowercase();
        kept.chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_lead_somewhere() {
    for (path, text) in documents() {
        for target in prose(&text).flat_map(links) {
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let linked = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(linked.exists(), "{}: there is no {target}", path.display());
            if !anchor.is_empty() {
                let known = anchors(&fs::read_to_string(&linked).unwrap());
                assert!(known.contains(anchor), "{}: {target} is no heading; there are {known:?}", path.display());
            }
        }
    }
}

/// What stands in backquotes.
fn quoted(text: &str) -> Vec<&str> {
    prose(text).flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn files_that_are_named_exist() {
    let mut found = 0;
    for (path, text) in documents() {
        for name in quoted(&text) {
            let begins = ["crates/", "docs/", "fuzz/", "packaging/", ".ci/"].iter().any(|dir| name.starts_with(dir));
            if !begins || name.contains(['*', '{', '…', '<']) || name.contains("/corpus") || name.contains("/artifacts")
            {
                continue;
            }
            // With its arguments, if it is a command.
            let file = name.split_whitespace().next().unwrap();
            assert!(root().join(file).exists(), "{}: there is no {file}", path.display());
            found += 1;
        }
    }
    assert!(found > 60, "{found} names: they are not found any more");
}

/// The words of each command for cargo in blocks of code and in backquotes.
fn cargo_commands(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().chain(quoted(text)).map(|line| line.trim_start_matches("//! ").trim());
    let commands = lines.filter_map(|line| {
        let at = line.find("cargo ")?;
        let before = &line[..at];
        // Nothing but variables in front of it.
        before.split_whitespace().all(|word| word.contains('=')).then(|| &line[at..])
    });
    commands.map(|line| line.split('#').next().unwrap().split_whitespace().collect()).collect()
}

fn values_of<'a>(words: &[&'a str], flags: &[&str]) -> Vec<&'a str> {
    words.windows(2).filter(|pair| flags.contains(&pair[0])).map(|pair| pair[1]).collect()
}

/// Directories of packages by their names.
fn package_dir(name: &str) -> PathBuf {
    let dir = match name {
        "colibri-db" => "colibri",
        name => name.strip_prefix("colibri-").unwrap_or(name),
    };
    root().join("crates").join(dir)
}

#[test]
fn tests_and_examples_that_people_are_told_to_run_exist() {
    let mut found = 0;
    for (path, text) in documents() {
        for words in cargo_commands(&text) {
            let packages = values_of(&words, &["-p", "--package"]);
            let told = format!("{}: {}", path.display(), words.join(" "));
            for package in &packages {
                let manifest = package_dir(package).join("Cargo.toml");
                let manifest =
                    fs::read_to_string(manifest).unwrap_or_else(|error| panic!("{told}: {package}: {error}"));
                assert!(manifest.contains(&format!("name = \"{package}\"")), "{told}: there is no package {package}");
                for feature in values_of(&words, &["--features"]) {
                    assert!(
                        manifest.contains(&format!("\n{feature} = ")),
                        "{told}: {package} has no feature {feature}"
                    );
                }
            }
            for (flags, folder) in [(["--test"], "tests"), (["--example"], "examples")] {
                for name in values_of(&words, &flags) {
                    let [package] = packages[..] else { panic!("{told}: {name} of which package?") };
                    let dir = package_dir(package).join(folder);
                    let exists =
                        dir.join(name).with_extension("rs").exists() || dir.join(name).join("main.rs").exists();
                    assert!(exists, "{told}: {package} has no {name} in {folder}");
                    found += 1;
                }
            }
        }
    }
    assert!(found > 20, "{found} commands: they are not found any more");
}

/// The code map's tables, each with the directory that the line above it names.
fn code_map() -> Vec<(PathBuf, Vec<String>)> {
    let text = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let mut map: Vec<(PathBuf, Vec<String>)> = Vec::new();
    for line in text.lines() {
        if let Some((dir, rest)) = line.strip_prefix('`').and_then(|line| line.split_once('`'))
            && dir.starts_with("crates/")
            && rest.ends_with("in the order in which to read it:")
        {
            map.push((root().join(dir), Vec::new()));
        } else if let (Some(row), Some((_, files))) = (line.strip_prefix("| `"), map.last_mut()) {
            let files_of_row = row.split('|').next().unwrap();
            files.extend(files_of_row.split(['`', ',', ' ']).filter(|name| !name.is_empty()).map(str::to_owned));
        } else if line.starts_with("## ") && !map.is_empty() {
            break;
        }
    }
    map
}

#[test]
fn the_code_map_has_every_file_and_no_other() {
    let map = code_map();
    assert!(map.len() >= 3, "the tables are not found any more: {map:?}");
    for (dir, named) in map {
        for name in &named {
            // `session/simple.rs`, `extended.rs` leaves out the directory of the second.
            let below = || fs::read_dir(&dir).unwrap().any(|entry| entry.unwrap().path().join(name).exists());
            assert!(dir.join(name).exists() || below(), "{}: there is no {name}", dir.display());
        }
        for entry in fs::read_dir(&dir).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_named = named
                .iter()
                .any(|known| known.trim_end_matches('/').trim_end_matches(".rs") == name.trim_end_matches(".rs"))
                || named.iter().any(|known| known.starts_with(&format!("{}/", name.trim_end_matches(".rs"))));
            let is_known = ["lib.rs", "main.rs", "tests.rs"].contains(&name.as_str());
            // A directory belongs to the file of its name.
            let is_tests = dir.join(&name).is_dir() && dir.join(&name).with_extension("rs").exists();
            assert!(is_named || is_known || is_tests, "{}: {name} is not in the code map", dir.display());
        }
    }
}

#[test]
fn functions_to_read_first_are_where_the_readme_says() {
    for name in ["README.md", "README.ru.md"] {
        let text = fs::read_to_string(root().join(name)).unwrap();
        // | `Type::function` | `file` | why |
        let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| `") && line.contains("::")).collect();
        assert_eq!(rows.len(), 5, "{name}: {rows:?}");
        for row in rows {
            let parts: Vec<_> = row.split('`').collect();
            let (function, file) =
                (parts[1].rsplit("::").next().unwrap(), fs::read_to_string(root().join(parts[3])).unwrap());
            let defined = [format!("fn {function}("), format!("fn {function}<")];
            assert!(defined.iter().any(|text| file.contains(text)), "{name}: {row}");
        }
    }
}

#[test]
fn both_readmes_show_the_same_code_and_commands() {
    let (english, russian) =
        ["README.md", "README.ru.md"].map(|name| fs::read_to_string(root().join(name)).unwrap()).into();
    assert!(english.contains("](README.ru.md)") && russian.contains("](README.md)"), "each links to the other");
    let code = |text: &str| -> Vec<String> {
        let blocks = text.split("```").skip(1).step_by(2);
        blocks.filter(|block| block.starts_with("rust") || block.starts_with("sh")).map(without_comments).collect()
    };
    assert_eq!(code(&english), code(&russian), "code and commands are the same in both");
}

fn without_comments(block: &str) -> String {
    let lines = block.lines().map(|line| line.split(" #").next().unwrap().split(" //").next().unwrap().trim_end());
    lines.collect::<Vec<_>>().join("\n")
}
