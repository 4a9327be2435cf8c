//! Programs in C, compiled here or installed, with our library. What is not installed is not run,
//! and that is said.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::library;

pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A directory in which the library has the names that programs look for.
pub(crate) fn named(dir: &Path) -> PathBuf {
    let (ours, libraries) = (library::ours(), dir.join("libraries"));
    fs::create_dir(&libraries).unwrap();
    for name in ["libcolibri.so", "libcolibri.so.0", "liblmdb.so.0"] {
        std::os::unix::fs::symlink(&ours, libraries.join(name)).unwrap();
    }
    libraries
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = found.is_ok();
    if !found {
        eprintln!("not run: {program} is not installed");
    }
    found
}

pub(crate) fn expect(mut command: Command) -> Output {
    let output = command.output().unwrap();
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{command:?}: {}\n{}{}", output.status, texts[0], texts[1]);
    output
}

/// Programs of `lmdb.h` and of `colibri.h`.
const PROGRAMS: [&str; 2] = ["exercise", "native"];

/// Compiles a program of this folder; `None` without a compiler.
fn compiled(dir: &Path, name: &str, compiler: &str, options: &[&str]) -> Option<PathBuf> {
    compiled_from(&here().join("tests").join(name).with_extension("c"), dir, compiler, options)
}

fn compiled_from(source: &Path, dir: &Path, compiler: &str, options: &[&str]) -> Option<PathBuf> {
    if !has(compiler) {
        return None;
    }
    let name = source.file_stem().unwrap().display();
    let program = dir.join(format!("{name}-{compiler}"));
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-D_XOPEN_SOURCE=700"]).args(options);
    command.arg("-I").arg(here().join("include")).arg("-o").arg(&program);
    command.arg(source).arg("-L").arg(dir.join("libraries")).args(["-lcolibri", "-pthread"]);
    expect(command);
    Some(program)
}

fn run(program: &Path, dir: &Path, data: &str, around: &[&str]) {
    let data = dir.join(data);
    fs::create_dir(&data).unwrap();
    let mut command = match around.split_first() {
        Some((outer, arguments)) => {
            let mut command = Command::new(outer);
            command.args(arguments).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.env("LD_LIBRARY_PATH", dir.join("libraries")).arg(data);
    assert_eq!(expect(command).stdout, b"done\n");
}

#[test]
fn programs_in_c_and_in_cplusplus_run_with_the_headers_and_the_library() {
    let dir = tempfile::tempdir().unwrap();
    named(dir.path());
    for name in PROGRAMS {
        if let Some(program) = compiled(dir.path(), name, "cc", &["-std=c99", "-pedantic"]) {
            run(&program, dir.path(), &format!("{name}-c"), &[]);
        }
        if let Some(program) = compiled(dir.path(), name, "g++", &["-xc++"]) {
            run(&program, dir.path(), &format!("{name}-c++"), &[]);
        }
    }
}

/// `native.c` is left out: one of its threads does not end under valgrind.
#[test]
fn valgrind_finds_nothing_in_a_program_that_uses_the_interface_of_lmdb() {
    let dir = tempfile::tempdir().unwrap();
    named(dir.path());
    if !has("valgrind") {
        return;
    }
    if let Some(program) = compiled(dir.path(), "exercise", "cc", &["-std=c99"]) {
        // Threads take turns under it, so that none starves.
        run(&program, dir.path(), "exercise", &["valgrind", "-q", "--error-exitcode=9", "--fair-sched=yes"]);
    }
}

/// The examples of the documentation: each block of C is a program.
#[test]
fn the_examples_of_the_documentation_run() {
    let dir = tempfile::tempdir().unwrap();
    named(dir.path());
    let text = fs::read_to_string(here().join("../../docs/C.md")).unwrap();
    let examples: Vec<_> = text.split("```c\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 3, "docs/C.md has {} examples", examples.len());
    for (number, example) in examples.into_iter().enumerate() {
        let source = dir.path().join(format!("example-{number}.c"));
        fs::write(&source, example).unwrap();
        for (compiler, options) in [("cc", ["-std=c99", "-pedantic"]), ("g++", ["-xc++", "-pedantic"])] {
            if let Some(program) = compiled_from(&source, dir.path(), compiler, &options) {
                let data = dir.path().join(format!("example-{number}-{compiler}.d"));
                fs::create_dir(&data).unwrap();
                let mut command = Command::new(program);
                command.env("LD_LIBRARY_PATH", dir.path().join("libraries")).current_dir(data);
                assert!(!expect(command).stdout.is_empty());
            }
        }
    }
}

/// Bug: the tools of Debian are linked with LMDB statically. Consequence: preloading our library
/// changed nothing, and the test passed with LMDB. Fix: the tools are compiled from LMDB's sources
/// and linked with our library, and what they write is looked at.
#[test]
fn the_tools_of_lmdb_run_with_our_library() {
    let dir = tempfile::tempdir().unwrap();
    let libraries = named(dir.path());
    let Some(sources) = library::sources_of_lmdb().filter(|_| has("cc")) else {
        eprintln!("not run: LMDB's sources are not there (cargo fetch)");
        return;
    };
    for name in ["mdb_load", "mdb_dump", "mdb_stat", "mdb_copy"] {
        let mut command = Command::new("cc");
        command.arg("-w").arg("-I").arg(here().join("include")).arg("-o").arg(dir.path().join(name));
        command.arg(sources.join(name).with_extension("c")).arg("-L").arg(&libraries).arg("-l:liblmdb.so.0");
        expect(command);
    }
    let tool = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(dir.path().join(name));
        command.args(arguments).env("LD_LIBRARY_PATH", &libraries).current_dir(dir.path());
        String::from_utf8(expect(command).stdout).unwrap()
    };
    let text = "VERSION=3\nformat=print\ndatabase=sub\ntype=btree\ndupsort=1\nHEADER=END\n \
                k\n v1\n k\n v2\n l\n v\nDATA=END\n";
    fs::write(dir.path().join("in"), text).unwrap();
    fs::create_dir(dir.path().join("one")).unwrap();
    fs::create_dir(dir.path().join("two")).unwrap();
    tool("mdb_load", &["-s", "sub", "-f", "in", "one"]);
    tool("mdb_copy", &["-c", "one", "two"]);
    for env in ["one", "two"] {
        // LMDB's files have this number behind the head of their first page.
        let data = fs::read(dir.path().join(env).join("data.mdb")).unwrap();
        assert_ne!(data[16..20], 0xBEEF_C0DE_u32.to_le_bytes(), "LMDB wrote this, and not our library");
        let dumped = tool("mdb_dump", &["-p", "-s", "sub", env]);
        assert!(dumped.ends_with("HEADER=END\n k\n v1\n k\n v2\n l\n v\nDATA=END\n"), "{dumped}");
        assert_eq!(tool("mdb_dump", &["-l", env]), "sub\n");
        let stat = tool("mdb_stat", &["-e", "-f", "-r", "-a", env]);
        assert!(stat.contains("Status of sub\n") && stat.contains("Entries: 3"), "{stat}");
    }
    // A single file, as `MDB_NOSUBDIR` has it, that is empty at first.
    fs::write(dir.path().join("file"), "").unwrap();
    tool("mdb_load", &["-n", "-s", "sub", "-f", "in", "file"]);
    assert_eq!(tool("mdb_dump", &["-n", "-l", "file"]), "sub\n");
}
