//! Suites as the command runs them, small.

use super::*;
use crate::parse;

fn ran(flags: &str) -> std::result::Result<serde_json::Value, String> {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("result.json");
    let flags = format!("{flags} --json {} --html {}", json.display(), dir.path().join("page.html").display());
    tpch(&parse::<TpchArgs>(&flags).map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    let text = std::fs::read(json).unwrap();
    serde_json::from_slice::<Vec<serde_json::Value>>(&text).unwrap().pop().ok_or_else(String::new)
}

/// The answers that PostgreSQL 15 gives, by rows and by column vectors, and again behind changes.
/// `colibri bench tpch --target postgres://… --scale 0.01 --answers answers-0.01.txt` has written
/// them.
#[test]
fn tpch_at_a_hundredth_has_the_answers_of_postgresql_by_rows_and_by_columns() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().display();
    let by_columns =
        ran(&format!("--scale 0.01 --rounds 1 --dir {dir} --streams 2 --fresh 10% --set colibri.columns=on")).unwrap();
    assert_eq!(by_columns["checks"][0]["verdict"], "holds");
    assert_eq!(by_columns["queries"].as_array().unwrap().len(), 22);
    let side = &by_columns["sides"][0];
    assert!(side["load"]["rows"].as_u64().unwrap() > 86_000);
    assert_eq!(side["streams"]["failures"].as_array().unwrap().len(), 0);
    assert!(side["streams"]["queries_per_hour"].as_f64().unwrap() > 0.0);
    // A tenth of 15,000 orders and of their 60,175 lines.
    let changed = side["fresh"]["changed_rows"].as_u64().unwrap();
    assert!((7_000..8_000).contains(&changed), "{changed}");

    // The changes were taken back, so the answers are those of before.
    let by_rows = ran(&format!("--scale 0.01 --rounds 1 --dir {dir} --set colibri.columns=off")).unwrap();
    assert_eq!(by_rows["sides"][0]["load"]["rows"], 0, "they are there");
    assert_eq!(by_rows["checks"][0]["verdict"], "holds");
}

/// A run is as good as its comparison: an answer that is not the known one makes it fail.
#[test]
fn an_answer_that_is_not_the_known_one_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let flags = format!("--scale 0.01 --rounds 1 --only q1,q6 --dir {}", dir.path().display());
    ran(&flags).unwrap();
    let opened = crate::sql::open::open_side("colibri", Some(dir.path())).unwrap();
    let runtime = driver::runtime(1).unwrap();
    runtime.block_on(async {
        let mut session = opened.target.connect(&[]).await.unwrap();
        session.query("UPDATE lineitem SET l_quantity = l_quantity + 0.01 WHERE l_orderkey = 1").await.unwrap();
    });
    drop((runtime, opened));
    let error = ran(&flags).unwrap_err();
    assert!(error.contains('1'), "{error}");
}

#[test]
fn what_cannot_be_run_is_refused_or_told() {
    let refused = |flags: &str| ran(flags).unwrap_err();
    assert!(refused("--scale 0").contains("--scale"));
    assert!(refused("--only q1,q23").contains("\"q23\""));
    assert!(refused("--fresh 0%").contains("1% to 100%"));
    assert!(refused("--rounds 0").contains("--rounds"));
    assert!(refused("--target mysql").contains("there is no target"));
    assert!(refused("--target postgres://localhost:1/x --dir data").contains("--dir"));
    assert!(refused("--set work_mem").contains("work_mem=256MB"));
    assert_eq!(setting("work_mem=256MB").unwrap(), "work_mem = '256MB'");
    assert_eq!(setting("application_name=it's").unwrap(), "application_name = 'it''s'");
    assert!(refused("--beside-pid 1").contains("--beside-pid"));
    assert!(refused("--max-ratio 2").contains("--beside"));
}

/// Both ways of execution are each other's check here, and Python's SQLite another's.
#[test]
fn clickbench_has_the_same_answers_by_rows_by_columns_and_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let ran = |setting: &str, more: &str| {
        let answers = dir.path().join(setting);
        let flags = format!(
            "--rows 20000 --rounds 1 --dir {}/database --set colibri.columns={setting} --answers {} {more}",
            dir.path().display(),
            answers.display()
        );
        clickbench(&parse::<ClickBenchArgs>(&flags).unwrap()).unwrap();
        std::fs::read_to_string(answers).unwrap()
    };
    let by_columns = ran("on", "--beside sqlite");
    assert_eq!(answer::read(&by_columns).len(), 43);
    assert!(answer::read(&by_columns).iter().filter(|(_, rows)| !rows.is_empty()).count() > 38);
    assert_eq!(by_columns.lines().collect::<Vec<_>>(), ran("off", "").lines().collect::<Vec<_>>());
}
