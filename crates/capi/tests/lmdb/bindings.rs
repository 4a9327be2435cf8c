//! Go and Java over our library: their tests, and the examples of their pages. What is not installed
//! is not run, and that is said.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::{expect, here, named};

/// The first example of a page: the block of a language.
fn example(page: &str, language: &str) -> String {
    let text = fs::read_to_string(here().join("../../docs").join(page)).unwrap();
    let begin = format!("```{language}\n");
    let (_, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("docs/{page} has no example"));
    rest.split("```").next().unwrap().to_owned()
}

/// What both examples print.
const BIRDS: &[u8] = b"bee: 1.95 g\ngiant: 20.20 g\n";

/// Whether a program is there, by what it says of its version.
fn runs(program: &Path, argument: &str) -> Option<String> {
    let said = Command::new(program).arg(argument).output().ok().filter(|output| output.status.success());
    if said.is_none() {
        eprintln!("not run: {} is not installed", program.display());
    }
    said.map(|output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn go(dir: &Path, libraries: &Path, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("go");
    command
        .args(arguments)
        .current_dir(folder)
        .env("CGO_ENABLED", "1")
        .env("CGO_CFLAGS", format!("-I{}", here().join("include").display()))
        .env("CGO_LDFLAGS", format!("-L{}", libraries.display()))
        .env("LD_LIBRARY_PATH", libraries)
        .env("GOPROXY", "off")
        .env("GOTOOLCHAIN", "local")
        .env("GOPATH", dir.join("gopath"));
    command
}

#[test]
fn the_driver_for_go_and_its_example_run() {
    if runs(Path::new("go"), "version").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let libraries = named(dir.path());
    let package = here().join("bindings/go");
    expect(go(dir.path(), &libraries, &package, &["vet", "."]));
    expect(go(dir.path(), &libraries, &package, &["test", "-count=1", "."]));
    let program = dir.path().join("program");
    fs::create_dir(&program).unwrap();
    fs::write(program.join("main.go"), example("GO.md", "go")).unwrap();
    let module =
        format!("module birds\n\ngo 1.19\n\nrequire colibri v0.0.0\n\nreplace colibri => {}\n", package.display());
    fs::write(program.join("go.mod"), module).unwrap();
    let output = expect(go(dir.path(), &libraries, &program, &["run", "."]));
    assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(BIRDS));
}

/// The directory of a Java with the foreign function interface: the one that `JAVA_HOME` or the path
/// has, or one of those that Debian's packages install.
fn java() -> Option<PathBuf> {
    let mut homes: Vec<PathBuf> = std::env::var_os("JAVA_HOME").map(PathBuf::from).into_iter().collect();
    homes.push(PathBuf::from("/usr"));
    homes.extend(fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path()));
    let is_new = |home: &PathBuf| {
        let compiler = Command::new(home.join("bin/javac")).arg("-version").output();
        let said = compiler.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let version = said.trim_start_matches("javac ").split(['.', '\n', '-']).next().unwrap_or("");
        version.parse::<u32>().is_ok_and(|version| version >= 22)
    };
    let found = homes.into_iter().find(is_new);
    if found.is_none() {
        eprintln!("not run: no JDK from version 22 on is installed");
    }
    found
}

#[test]
fn the_package_for_java_and_its_example_run() {
    let Some(home) = java() else { return };
    let dir = tempfile::tempdir().unwrap();
    let libraries = named(dir.path());
    let (sources, classes) = (here().join("bindings/java"), dir.path().join("classes"));
    fs::write(dir.path().join("Birds.java"), example("JAVA.md", "java")).unwrap();
    let mut compile = Command::new(home.join("bin/javac"));
    compile.args(["-Xlint:all", "-Werror", "-Xlint:-restricted", "-d"]).arg(&classes);
    for entry in fs::read_dir(sources.join("colibri")).unwrap() {
        compile.arg(entry.unwrap().path());
    }
    compile.arg(sources.join("ColibriTest.java")).arg(dir.path().join("Birds.java"));
    expect(compile);
    let run = |class: &str, argument: Option<&Path>| {
        let mut command = Command::new(home.join("bin/java"));
        command
            .arg("--enable-native-access=ALL-UNNAMED")
            .arg(format!("-Dcolibri.library={}", libraries.join("libcolibri.so").display()))
            .arg("-cp")
            .arg(&classes)
            .arg(class)
            .args(argument)
            .current_dir(dir.path());
        expect(command).stdout
    };
    assert_eq!(run("ColibriTest", Some(&dir.path().join("test"))), b"done\n");
    assert_eq!(run("Birds", None), BIRDS);
}
